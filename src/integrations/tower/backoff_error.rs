//! What is wrong with the settings of a back-off.

use std::{error, fmt, time::Duration};

/// Why an [`ExponentialBackoffMaker`](super::ExponentialBackoffMaker) was not made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackoffError {
    /// The longest back-off is zero.
    MaxTooShort {
        /// The longest back-off asked for.
        max: Duration,
        /// The shortest that this may be.
        shortest: Duration,
    },
    /// The longest back-off is shorter than the first.
    MaxBelowMin {
        /// The longest back-off asked for.
        max: Duration,
        /// The first back-off asked for.
        min: Duration,
    },
    /// The jitter is negative, too large, or not a number.
    Jitter {
        /// The jitter asked for.
        jitter: f64,
        /// The smallest there is.
        smallest: f64,
        /// The largest there is.
        largest: f64,
    },
}

impl fmt::Display for BackoffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxTooShort { max, shortest } => {
                write!(f, "a longest back-off of {max:?} is too short: it takes at least {shortest:?}")
            }
            Self::MaxBelowMin { max, min } => write!(
                f,
                "a longest back-off of {max:?} is too short: it takes at least the first, which is {min:?}"
            ),
            Self::Jitter { jitter, smallest, largest } => {
                write!(f, "a jitter of {jitter}: it takes from {smallest} to {largest}")
            }
        }
    }
}

impl error::Error for BackoffError {}
