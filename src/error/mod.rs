//! Errors: of building a wheel, of a timer that cannot run, and of a timeout whose time is up.

mod build;
mod refused_future;

use std::{error, fmt, io};

pub use build::BuildError;
pub(crate) use refused_future::GivenBack;

use crate::wheel::Nanos;

/// Why a timer cannot run: its wheel has ended, or is full.
///
/// The `try_` methods, [`Sleep::poll_try_wait`](crate::Sleep::poll_try_wait) and the responses of tower's services
/// return this error. A timeout returns it inside [`Elapsed`]. A sleep cannot return an error, so it panics with the
/// text of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Shutdown,
    AtCapacity,
    Full { max_pending: usize },
    Invalid,
}

impl Error {
    /// The error of a wheel that has ended, to test code that handles it.
    #[must_use]
    pub const fn shutdown() -> Self {
        Self { kind: Kind::Shutdown }
    }

    /// The error of a wheel that is full, to test code that handles it.
    #[must_use]
    pub const fn at_capacity() -> Self {
        Self { kind: Kind::AtCapacity }
    }

    /// An error that no wheel returns, because wheels take every duration. `tokio::time::error::Error` has it too.
    #[must_use]
    pub const fn invalid() -> Self {
        Self { kind: Kind::Invalid }
    }

    /// The error of a wheel that is full.
    pub(crate) const fn full(max_pending: usize) -> Self {
        Self { kind: Kind::Full { max_pending } }
    }

    /// Whether the wheel has ended, by `shutdown` or with its runtime.
    #[must_use]
    pub const fn is_shutdown(&self) -> bool {
        matches!(self.kind, Kind::Shutdown)
    }

    /// Whether as many timers were pending as the wheel's `max_pending` allows.
    #[must_use]
    pub const fn is_at_capacity(&self) -> bool {
        matches!(self.kind, Kind::AtCapacity | Kind::Full { .. })
    }

    /// Whether this is [`invalid`](Self::invalid).
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        matches!(self.kind, Kind::Invalid)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Shutdown => {
                f.write_str("the timing wheel has ended: it was shut down, or its tokio runtime was")
            }
            Kind::AtCapacity => f.write_str("the timing wheel refused one more timer: it is full"),
            Kind::Invalid => f.write_str("the timing wheel refused a timer: its duration is out of range"),
            Kind::Full { max_pending } => write!(
                f,
                "the timing wheel refused one more timer: {max_pending} are pending, and its max_pending \
                 is {max_pending}"
            ),
        }
    }
}

impl error::Error for Error {}

/// The error of a timeout: the deadline came first, or the timer could not run.
///
/// [Streams](crate::stream) return it too. An [`IdleGuard`](crate::IdleGuard) returns it inside an `io::Error`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::{future, io, time::Duration};
/// use timingwheel::TimingWheel;
///
/// let wheel = TimingWheel::new();
/// let elapsed = wheel.timeout(Duration::from_millis(1), future::pending::<()>()).await.unwrap_err();
/// assert_eq!(elapsed.to_string(), "deadline has elapsed");
/// assert_eq!(elapsed.reason(), None);
/// assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Elapsed {
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum What {
    #[default]
    Deadline,
    /// Of an [`IdleGuard`](crate::IdleGuard), this long.
    ReadLimit(Nanos),
    WriteLimit(Nanos),
    IdleLimit(Nanos),
    CouldNotRun(Error),
}

impl Elapsed {
    pub(crate) const fn because(reason: Error) -> Self {
        Self { what: What::CouldNotRun(reason) }
    }

    /// The read limit of an [`IdleGuard`](crate::IdleGuard).
    pub(crate) const fn of_read_limit(limit: Nanos) -> Self {
        Self { what: What::ReadLimit(limit) }
    }

    /// The write limit of an [`IdleGuard`](crate::IdleGuard).
    pub(crate) const fn of_write_limit(limit: Nanos) -> Self {
        Self { what: What::WriteLimit(limit) }
    }

    /// The limit of an [`IdleGuard`](crate::IdleGuard) for both directions together.
    pub(crate) const fn of_idle_limit(limit: Nanos) -> Self {
        Self { what: What::IdleLimit(limit) }
    }

    /// Why the timer could not run, or `None` if the deadline has elapsed.
    #[must_use]
    pub const fn reason(&self) -> Option<Error> {
        match self.what {
            What::CouldNotRun(reason) => Some(reason),
            What::Deadline | What::ReadLimit(_) | What::WriteLimit(_) | What::IdleLimit(_) => None,
        }
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Deadline => f.pad("deadline has elapsed"),
            What::ReadLimit(Nanos::ZERO) => {
                f.write_str("a read found no byte, and may not wait: its limit is 0ns")
            }
            What::WriteLimit(Nanos::ZERO) => {
                f.write_str("a write made no progress, and may not wait: its limit is 0ns")
            }
            What::IdleLimit(Nanos::ZERO) => f.write_str("the stream may not be idle: its limit is 0ns"),
            What::IdleLimit(limit) => {
                write!(f, "the stream has been idle for {:?}, its limit", limit.to_duration())
            }
            What::ReadLimit(limit) => {
                write!(f, "a read has waited for {:?} without a byte, its limit", limit.to_duration())
            }
            What::WriteLimit(limit) => {
                write!(f, "a write has waited for {:?} without progress, its limit", limit.to_duration())
            }
            What::CouldNotRun(_) => f.write_str("the timer could not run"),
        }
    }
}

/// The source is the [reason](Elapsed::reason), if the timer could not run.
impl error::Error for Elapsed {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.what {
            What::CouldNotRun(reason) => Some(reason),
            What::Deadline | What::ReadLimit(_) | What::WriteLimit(_) | What::IdleLimit(_) => None,
        }
    }
}

/// If the deadline has elapsed, the kind `TimedOut` without a source. If a limit of an [`IdleGuard`](crate::IdleGuard) was
/// reached, the kind `TimedOut` with this error inside. If the timer could not run, the kind `Other` with this error inside.
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        match elapsed.what {
            What::Deadline => io::ErrorKind::TimedOut.into(),
            What::ReadLimit(_) | What::WriteLimit(_) | What::IdleLimit(_) => {
                Self::new(io::ErrorKind::TimedOut, elapsed)
            }
            What::CouldNotRun(_) => Self::other(elapsed),
        }
    }
}

/// The error of [`try_timeout`](crate::TimingWheel::try_timeout), which gives the refused future back.
///
/// If the future is `Send` and borrows nothing, `?` takes this error into a `Box<dyn Error + Send + Sync>`.
pub struct TryTimeoutError<F> {
    error: Error,
    future: GivenBack<F>,
}

impl<F> TryTimeoutError<F> {
    pub(crate) const fn new(error: Error, future: F) -> Self {
        Self { error, future: GivenBack::new(future) }
    }

    /// Why it was refused.
    #[must_use]
    pub const fn error(&self) -> Error {
        self.error
    }

    /// The future, as it was given: it has not been polled.
    #[must_use]
    pub fn into_inner(self) -> F {
        self.future.into_inner()
    }
}

impl<F> fmt::Debug for TryTimeoutError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryTimeoutError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for TryTimeoutError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<F> error::Error for TryTimeoutError<F> {}

/// Without the future, for `?` in functions that return an [`Error`].
impl<F> From<TryTimeoutError<F>> for Error {
    fn from(refused: TryTimeoutError<F>) -> Self {
        refused.error
    }
}
