//! What a health check found.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A wheel exceeds its [`Limits`](super::Limits), from [`TimingWheel::health`](crate::TimingWheel::health).
#[derive(Clone, Debug, PartialEq)]
pub struct Unhealthy {
    exceeded: Vec<Exceeded>,
}

impl Unhealthy {
    pub(super) const fn new(exceeded: Vec<Exceeded>) -> Self {
        Self { exceeded }
    }

    /// All that is exceeded; not empty.
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

/// A value that is above its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Exceeded {
    /// The wheel has ended, which needs no limit.
    Ended,
    /// The wheel is not turned when it should be.
    Overdue {
        /// For how long it has been due.
        overdue: Duration,
        /// For how long it may be.
        limit: Duration,
    },
    /// Too many timers are pending.
    Pending {
        /// How many.
        pending: usize,
        /// How many may be.
        limit: usize,
    },
    /// Too many timers fired too late.
    Lateness {
        /// The share of timers that have to be in time.
        quantile: f64,
        /// How late these were, at the most.
        lateness: Duration,
        /// How late they may be.
        limit: Duration,
    },
    /// A turn held a shard's lock for too long.
    LockHold {
        /// For how long, at the most.
        longest: Duration,
        /// For how long it may.
        limit: Duration,
    },
    /// Too many timers were refused, because the wheel was full.
    Refused {
        /// How many.
        refused: u64,
        /// How many may be.
        limit: u64,
    },
    /// Turns were late too often.
    Stalls {
        /// How often.
        stalls: u64,
        /// How often it may be.
        limit: u64,
    },
    /// Too many wakers panicked.
    WakersPanicked {
        /// How many.
        panicked: u64,
        /// How many may.
        limit: u64,
    },
    /// Too many jobs panicked.
    JobsPanicked {
        /// How many.
        panicked: u64,
        /// How many may.
        limit: u64,
    },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("it has ended"),
            Self::Overdue { overdue, limit } => {
                write!(f, "it is overdue by {overdue:?}, the limit is {limit:?}")
            }
            Self::Pending { pending, limit } => {
                write!(f, "{pending} timers are pending, the limit is {limit}")
            }
            Self::Lateness { quantile, lateness, limit } => {
                // Without the digits that come of doing this in binary.
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
            Self::JobsPanicked { panicked, limit } => {
                write!(f, "{panicked} jobs panicked, the limit is {limit}")
            }
        }
    }
}
