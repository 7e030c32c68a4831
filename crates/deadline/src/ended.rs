//! [`Ended`]: why a future was ended.

use std::{error, fmt, io};

/// Why a future that ran under a [`Deadline`](crate::Deadline) was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The time of the deadline, or of an ancestor, is up: nothing more can be done for this request.
    Passed,
    /// The time of this call alone is up, as [`run_within`](crate::Deadline::run_within) set it. The deadline goes on.
    Limit,
    /// The deadline was cancelled, or an ancestor was.
    Cancelled,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "the deadline has passed",
            Self::Limit => "the limit of the call has passed",
            Self::Cancelled => "the deadline was cancelled",
        })
    }
}

impl error::Error for Ended {}

/// `TimedOut` where time is up, `ConnectionAborted` for a cancel.
impl From<Ended> for io::Error {
    fn from(ended: Ended) -> Self {
        let kind = match ended {
            Ended::Passed | Ended::Limit => io::ErrorKind::TimedOut,
            Ended::Cancelled => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, ended)
    }
}
