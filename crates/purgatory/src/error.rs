//! Why an operation did not complete.

use std::{error, fmt, io};

use timingwheel::Error;

/// Why a watched operation did not complete: the error of a [`Watch`](crate::Watch).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::{io, time::Duration};
/// use timingwheel::TimingWheel;
/// use timingwheel_purgatory::{Purgatory, WatchError};
///
/// let purgatory = Purgatory::new(&TimingWheel::new());
/// let error = purgatory.watch(["key"], Duration::from_secs(1), || None::<()>).await.unwrap_err();
/// assert_eq!(error, WatchError::Expired);
/// assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchError {
    /// The deadline came, and the condition did not hold.
    Expired,
    /// One of its keys was cancelled, or the purgatory was shut down.
    Cancelled,
    /// The timer could not run: the wheel has ended, or is full. The text says which.
    CouldNotRun(Error),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.pad("the operation was not complete when its deadline came"),
            Self::Cancelled => f.pad("the operation was cancelled before it was complete"),
            Self::CouldNotRun(reason) => write!(f, "the operation could not be watched: {reason}"),
        }
    }
}

impl error::Error for WatchError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Expired | Self::Cancelled => None,
            Self::CouldNotRun(reason) => Some(reason),
        }
    }
}

/// The kind is `TimedOut` if the operation has expired, and `Other` in all other cases. The new error holds this one.
impl From<WatchError> for io::Error {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Expired => Self::new(io::ErrorKind::TimedOut, error),
            WatchError::Cancelled | WatchError::CouldNotRun(_) => Self::other(error),
        }
    }
}
