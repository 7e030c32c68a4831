//! [`Ended`]: why a future was ended.

use std::{error, fmt, io};

/// Why a future that ran under a [`Deadline`](crate::Deadline) was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The deadline has passed, or that of an ancestor, or the future's own limit.
    Passed,
    /// The deadline was cancelled, or an ancestor was.
    Cancelled,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "the deadline has passed",
            Self::Cancelled => "the deadline was cancelled",
        })
    }
}

impl error::Error for Ended {}

/// `TimedOut` for a deadline that has passed, `ConnectionAborted` for one that was cancelled.
impl From<Ended> for io::Error {
    fn from(ended: Ended) -> Self {
        let kind = match ended {
            Ended::Passed => io::ErrorKind::TimedOut,
            Ended::Cancelled => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, ended)
    }
}
