//! The error of a builder.

use std::{error, fmt, io, time::Duration};

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
    /// The runtime is a current-thread one without timers of its own (`enable_time`), so the wheel could not follow its
    /// clock when that is paused.
    NoTimers,
    /// The operating system gave no thread for the watchdog.
    WatchdogThread(io::Error),
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
            Self::NoTimers => f.write_str(
                "a timing wheel on a current-thread runtime needs tokio's timers, and this runtime has none: build it \
                 with `enable_time` or `enable_all`",
            ),
            Self::WatchdogThread(_) => f.write_str("the operating system gave no thread for the wheel's watchdog"),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::WatchdogThread(error) => Some(error),
            _ => None,
        }
    }
}
