//! Errors of a database.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::id::TimerId;

/// The statement came after the time that was set for it: see `timingwheel.in_time`.
pub(super) const TOO_LATE: &str = "TW001";

/// Why a [`PostgresStore`](super::PostgresStore) failed. [`source`](Error::source) has the cause.
///
/// If the database refused a call, the text has its message and its code, and there is no cause: the details of the
/// database can quote a payload. They are in the client's error, which `Debug` prints.
#[derive(Debug)]
#[non_exhaustive]
pub enum PostgresError {
    /// The address of the database, or a setting in it, is not allowed.
    Setting(String),
    /// There was no connection to be had.
    Unreached {
        /// Hosts, ports and the name of the database, without a password.
        address: String,
        /// Why: nobody listens there, the host is not known, or the database refused the user.
        error: tokio_postgres::Error,
    },
    /// The connection failed, or the database refused the call.
    Client(tokio_postgres::Error),
    /// There was no answer for so long.
    TimedOut(Duration),
    /// The tables in the database are of a format that this version does not work with.
    Format {
        /// The oldest that programs must know.
        oldest: i32,
        /// The newest that this version knows.
        known: i32,
    },
    /// The tables in the database are of an older format, and the program was told not to migrate them.
    Old {
        /// Their format.
        version: i32,
        /// The format that this version needs.
        known: i32,
    },
    /// The tables are not there, and the program was told not to create them.
    NoTables,
    /// The timer is not this instance's any more. The transaction must not be committed.
    Fenced,
    /// The key belongs to this timer, which is stored or has begun.
    KeyTaken(TimerId),
    /// The payload could not be written as JSON.
    Encode(serde_json::Error),
    /// The answer of the database is no timer.
    Corrupt(String),
    /// A text that the database cannot hold.
    Text(String),
}

impl PostgresError {
    /// Whether the database has refused the call with this code.
    pub(super) fn has_code(&self, code: &SqlState) -> bool {
        matches!(self, Self::Client(error) if error.code() == Some(code))
    }

    pub(super) fn is_transient(&self) -> bool {
        match self {
            // Without a connection nothing of the call was looked at: it is never the fault of a timer.
            Self::Unreached { .. } => true,
            Self::Client(error) => match error.code() {
                // Connections, resources, what an operator does, conflicts, locks that were waited for, and a server that
                // only reads, as a standby does until it takes over.
                Some(code) => {
                    ["08", "53", "57", "40", "55"].contains(&&code.code()[..2])
                        || code.code() == TOO_LATE
                        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                }
                // No answer of the database: the connection.
                None => true,
            },
            Self::TimedOut(_) => true,
            _ => false,
        }
    }

    /// Whether the statement waited too long for a lock, and did nothing.
    pub(crate) fn is_locked(&self) -> bool {
        self.has_code(&SqlState::LOCK_NOT_AVAILABLE)
    }
}

impl fmt::Display for PostgresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(what) => f.write_str(what),
            Self::Unreached { address, error } => {
                write!(f, "no connection to the database at {address}{}", refusal(error))
            }
            Self::Client(error) => write!(f, "a call of the database failed{}", refusal(error)),
            Self::TimedOut(after) => write!(f, "the database did not answer within {after:?}"),
            Self::Format { oldest, known } => write!(
                f,
                "the tables must work with programs of format {known} or older, got those that need {oldest}"
            ),
            Self::Old { version, known } => write!(
                f,
                "the tables must be of format {known}, got {version}: call PostgresStore::migrate, or let connect do it"
            ),
            Self::NoTables => f.write_str("the tables of timers are not there, and were not to be created"),
            Self::Fenced => {
                f.write_str("the timer is not this instance's any more: roll the transaction back")
            }
            Self::KeyTaken(id) => write!(f, "the key belongs to the timer {id}"),
            Self::Encode(_) => f.write_str("the payload could not be written as JSON, or not be read again"),
            Self::Corrupt(what) => write!(f, "the database has no timer there: {what}"),
            Self::Text(what) => f.write_str(what),
        }
    }
}

/// The message of a database that refused a call, without its details.
fn refusal(error: &tokio_postgres::Error) -> String {
    let refusal = error.as_db_error();
    refusal.map_or_else(String::new, |told| format!(": {} (code {})", told.message(), told.code().code()))
}

impl Error for PostgresError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreached { error, .. } | Self::Client(error) if error.as_db_error().is_none() => {
                Some(error)
            }
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error)
    }
}
