//! What can go wrong: while a wheel is built, while a timer waits, and when a timeout is up.

mod build;
mod given_back;

use std::{error, fmt, io};

pub use build::BuildError;
pub(crate) use given_back::GivenBack;

use crate::wheel::tick::Nanos;

/// Why a timer cannot run: its wheel has ended, or is full.
///
/// What can return an error instead of a panic returns it: the `try_` methods, the responses of tower's services,
/// [`Sleep::poll_elapsed`](crate::Sleep::poll_elapsed). `sleep` panics with its text, and a timeout returns it inside
/// [`Elapsed`].
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
    Stopped,
}

impl Error {
    /// As from a wheel that has ended, for tests of code that handles it.
    #[must_use]
    pub const fn shutdown() -> Self {
        Self { kind: Kind::Shutdown }
    }

    /// As from a wheel that is full, for tests of code that handles it.
    #[must_use]
    pub const fn at_capacity() -> Self {
        Self { kind: Kind::AtCapacity }
    }

    /// What no wheel returns, as it takes every duration. It is there because `tokio::time::error::Error` has it.
    #[must_use]
    pub const fn invalid() -> Self {
        Self { kind: Kind::Invalid }
    }

    /// From a wheel that is full.
    pub(crate) const fn full(max_pending: usize) -> Self {
        Self { kind: Kind::Full { max_pending } }
    }

    /// From [`Jobs`](crate::job::Jobs) that were stopped.
    pub(crate) const fn stopped() -> Self {
        Self { kind: Kind::Stopped }
    }

    /// Whether the wheel has ended, by `shutdown` or with its runtime, or the [`Jobs`](crate::job::Jobs) were stopped.
    #[must_use]
    pub const fn is_shutdown(&self) -> bool {
        matches!(self.kind, Kind::Shutdown | Kind::Stopped)
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
            Kind::Stopped => f.write_str("the jobs were stopped, and take no more"),
            Kind::Full { max_pending } => write!(
                f,
                "the timing wheel refused one more timer: {max_pending} are pending, and its max_pending \
                 is {max_pending}"
            ),
        }
    }
}

impl error::Error for Error {}

/// The error of a timeout, of a [stream](crate::stream)'s too, and what is in that of an
/// [`IdleGuard`](crate::IdleGuard): the deadline came first, or the timer could not run.
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

    /// Why the timer could not run, or `None` if the deadline has elapsed.
    #[must_use]
    pub const fn reason(&self) -> Option<Error> {
        match self.what {
            What::CouldNotRun(reason) => Some(reason),
            What::Deadline | What::ReadLimit(_) | What::WriteLimit(_) => None,
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
            What::Deadline | What::ReadLimit(_) | What::WriteLimit(_) => None,
        }
    }
}

/// `TimedOut`, and nothing else, if the deadline has elapsed; with this error in it if a limit has, or, of kind
/// `Other`, if the timer could not run.
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        match elapsed.what {
            What::Deadline => io::ErrorKind::TimedOut.into(),
            What::ReadLimit(_) | What::WriteLimit(_) => Self::new(io::ErrorKind::TimedOut, elapsed),
            What::CouldNotRun(_) => Self::other(elapsed),
        }
    }
}

/// `try_timeout` was refused. The future that it was to watch is in here.
///
/// It can be shared between threads if the future can be sent, so `?` takes it into a `Box<dyn Error + Send + Sync>`,
/// unless the future borrows something.
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
