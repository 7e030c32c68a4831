//! Errors: a wheel cannot be built, a timer cannot run, or a timeout's time is up.

use std::{error, fmt, io, time::Duration};

use crate::wheel::Nanos;

/// Why a timer cannot run: its wheel has ended, or is full.
///
/// The `try_` methods and [`Sleep::wait`](crate::Sleep::wait) return this error, and an
/// [`IdleGuard`](crate::IdleGuard) does inside an `io::Error`. A sleep and an interval cannot return an error, so they
/// panic with the text of this one. A timeout goes on [without the wheel](crate::TimingWheel::timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Shutdown,
    Full { max_pending: usize },
}

impl Error {
    /// The error of a wheel that has ended: for libraries that are built on timers, and for tests.
    #[must_use]
    pub const fn shutdown() -> Self {
        Self { kind: Kind::Shutdown }
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
        matches!(self.kind, Kind::Full { .. })
    }

    /// Never: a wheel takes each deadline. It is here because `tokio::time`'s error has it.
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        false
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Shutdown => {
                f.write_str("the timing wheel has ended: it was shut down, or its tokio runtime has ended")
            }
            Kind::Full { max_pending } => write!(f, "the timing wheel is full (max_pending = {max_pending})"),
        }
    }
}

impl error::Error for Error {}

/// The kind `Other`, with this error inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// The error of a timeout: the deadline came first.
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
    Limit(Limit, Nanos),
}

/// The limits of an [`IdleGuard`](crate::IdleGuard).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    Read,
    Write,
    /// For both directions together.
    Idle,
}

impl Elapsed {
    pub(crate) const fn of(limit: Limit, time: Nanos) -> Self {
        Self { what: What::Limit(limit, time) }
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let What::Limit(limit, time) = self.what else { return f.pad("deadline has elapsed") };
        if time == Nanos::ZERO {
            return f.write_str(match limit {
                Limit::Read => "no byte was there to read, and the read limit is 0ns",
                Limit::Write => "writing made no progress, and the write limit is 0ns",
                Limit::Idle => "the stream was idle, and the idle limit is 0ns",
            });
        }
        let (event, name) = match limit {
            Limit::Read => ("no byte has been read", "read"),
            Limit::Write => ("writing has made no progress", "write"),
            Limit::Idle => ("no byte has passed", "idle"),
        };
        write!(f, "{event} for {:?}, the {name} limit", time.to_duration())
    }
}

impl error::Error for Elapsed {}

/// If the deadline has elapsed, the kind `TimedOut` without a source. If a limit of an [`IdleGuard`](crate::IdleGuard) was
/// reached, the kind `TimedOut` with this error inside.
impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        match elapsed.what {
            What::Deadline => io::ErrorKind::TimedOut.into(),
            What::Limit(..) => Self::new(io::ErrorKind::TimedOut, elapsed),
        }
    }
}

/// Why [`Builder::build`](crate::Builder::build) did not build a wheel.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is shorter than 1 µs.
    TickTooShort {
        /// The tick asked for.
        tick: Duration,
        /// The shortest tick allowed.
        min: Duration,
    },
    /// The tick is longer than a wheel's whole range.
    TickTooLong {
        /// The tick asked for.
        tick: Duration,
        /// The longest tick allowed.
        max: Duration,
    },
    /// The number of slots in a level is too small or too large.
    WheelSize {
        /// The number asked for.
        wheel_size: usize,
        /// The smallest number allowed.
        min: usize,
        /// The largest number allowed.
        max: usize,
    },
    /// The number of shards is zero or too large.
    Shards {
        /// The number asked for.
        shards: usize,
        /// The largest number allowed.
        max: usize,
    },
    /// Shards times wheel size is too large. The slots take their memory when the wheel is built.
    Slots {
        /// The number of shards.
        shards: usize,
        /// The number of slots in a level of each.
        wheel_size: usize,
        /// The largest product allowed.
        max: usize,
    },
    /// There is no tokio runtime on this thread.
    NoRuntime,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TickTooShort { tick, min } => {
                write!(f, "tick must be at least {min:?}, got {tick:?}")
            }
            Self::TickTooLong { tick, max } => {
                write!(f, "tick must be at most {max:?}, got {tick:?}")
            }
            Self::WheelSize { wheel_size, min, max } => {
                write!(f, "wheel size must be {min} to {max}, got {wheel_size}")
            }
            Self::Shards { shards, max } => write!(f, "shards must be 1 to {max}, got {shards}"),
            Self::Slots { shards, wheel_size, max } => {
                write!(f, "shards times wheel size must be at most {max}, got {shards} times {wheel_size}")
            }
            Self::NoRuntime => f.write_str(
                "a timing wheel needs a tokio runtime for its driver, and this thread is not within one: \
                 build it inside `block_on` or under `Runtime::enter`",
            ),
        }
    }
}

impl error::Error for BuildError {}
