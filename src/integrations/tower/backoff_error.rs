//! The error of a back-off's settings.

use std::{error, fmt, time::Duration};

/// Why an [`ExponentialBackoffMaker`](super::ExponentialBackoffMaker) was not made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackoffError {
    /// The longest back-off is zero.
    MaxTooShort {
        /// The longest back-off asked for.
        max: Duration,
        /// The shortest allowed.
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
        /// The smallest allowed.
        smallest: f64,
        /// The largest allowed.
        largest: f64,
    },
}

impl fmt::Display for BackoffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxTooShort { max, shortest } => {
                write!(f, "longest back-off must be at least {shortest:?}, got {max:?}")
            }
            Self::MaxBelowMin { max, min } => {
                write!(f, "longest back-off must be at least the first, which is {min:?}, got {max:?}")
            }
            Self::Jitter { jitter, smallest, largest } => {
                write!(f, "jitter must be {smallest} to {largest}, got {jitter}")
            }
        }
    }
}

impl error::Error for BackoffError {}
