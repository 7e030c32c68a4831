//! The error of a health check.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The error of [`TimingWheel::health`](crate::TimingWheel::health): the wheel exceeds some of its
/// [`Limits`](super::Limits).
#[derive(Clone, Debug, PartialEq)]
pub struct Unhealthy {
    exceeded: Vec<Exceeded>,
}

impl Unhealthy {
    pub(super) const fn new(exceeded: Vec<Exceeded>) -> Self {
        Self { exceeded }
    }

    /// All limits that are exceeded: at least one.
    #[must_use]
    pub fn exceeded(&self) -> &[Exceeded] {
        &self.exceeded
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timing wheel is not healthy: ")?;
        for (number, exceeded) in self.exceeded.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "; " })?;
            exceeded.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Unhealthy {}

/// A limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Exceeded {
    /// The wheel has ended. No limit has to be set for this.
    Ended,
    /// The system gives no thread for the watchdog, so a worker that blocks may hold up timers. No limit has to be set for
    /// this.
    Unwatched,
    /// Nobody turns the wheel, though it is due.
    Overdue {
        /// For how long the wheel has been due.
        overdue: Duration,
        /// For how long it may be due.
        limit: Duration,
    },
    /// Too many timers are pending.
    Pending {
        /// How many timers are pending.
        pending: usize,
        /// How many may be pending.
        limit: usize,
    },
    /// Too many timers fired too late.
    Lateness {
        /// The share of timers that have to be in time.
        quantile: f64,
        /// How late that share of timers was, at most.
        lateness: Duration,
        /// How late it may be.
        limit: Duration,
    },
    /// A turn held a shard's lock for too long.
    LockHold {
        /// The longest time for which a turn held a lock.
        longest: Duration,
        /// For how long a turn may hold it.
        limit: Duration,
    },
    /// Too many timers were refused, because the wheel was full.
    Refused {
        /// How many timers were refused.
        refused: u64,
        /// How many may be refused.
        limit: u64,
    },
    /// Turns were late too often.
    Stalls {
        /// How often a turn was late, once for each backlog.
        stalls: u64,
        /// How often one may be late.
        limit: u64,
    },
    /// Too many wakers panicked.
    WakersPanicked {
        /// How many wakers panicked.
        panicked: u64,
        /// How many may panic.
        limit: u64,
    },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("it has ended"),
            Self::Unwatched => f.write_str("the system gives no thread for its watchdog"),
            Self::Overdue { overdue, limit } => {
                write!(f, "it is overdue by {overdue:?}, the limit is {limit:?}")
            }
            Self::Pending { pending, limit } => {
                write!(f, "{pending} timers are pending, the limit is {limit}")
            }
            Self::Lateness { quantile, lateness, limit } => {
                // Rounded, because 0.999 in binary is not exactly 99.9 %.
                let percent = (quantile * 100e6).round() / 1e6;
                write!(f, "{percent} % of timers were late by up to {lateness:?}, the limit is {limit:?}")
            }
            Self::LockHold { longest, limit } => {
                write!(f, "a turn of it held a lock for {longest:?}, the limit is {limit:?}")
            }
            Self::Refused { refused, limit } => {
                write!(f, "{refused} timers were refused, the limit is {limit}")
            }
            Self::Stalls { stalls, limit } => {
                write!(f, "it was turned late {stalls} times, the limit is {limit}")
            }
            Self::WakersPanicked { panicked, limit } => {
                write!(f, "{panicked} wakers panicked, the limit is {limit}")
            }
        }
    }
}
