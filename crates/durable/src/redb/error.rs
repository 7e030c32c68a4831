//! What goes wrong with a file.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a [`RedbStore`](super::RedbStore) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RedbError {
    /// A process has the file.
    InUse {
        /// The file.
        path: PathBuf,
        /// Who has it, as far as that is noted.
        owner: Option<String>,
    },
    /// The file could not be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// Why: its folder is not there, this process may not write it, it is no file of redb.
        error: Box<redb::Error>,
    },
    /// A newer version of this crate has written the file.
    Newer {
        /// The file's format.
        found: u64,
        /// The newest that this version knows.
        known: u64,
    },
    /// A payload is too large. It takes no more than [`LARGEST`](Self::LARGEST) bytes; it had so many.
    TooLarge(usize),
    /// What stands in the file is no timer.
    Corrupt(String),
    /// The storage failed.
    Storage(Box<redb::Error>),
    /// The transaction failed in which this call was, with others.
    Shared(Arc<RedbError>),
    /// The runtime has ended.
    Closed,
}

impl RedbError {
    /// How many bytes a payload may have: 64 MiB.
    pub const LARGEST: usize = 64 << 20;

    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            // A disk that is full, or gone for a while; the file is opened again for the next call.
            Self::Open { error, .. } | Self::Storage(error) => {
                matches!(**error, redb::Error::Io(_) | redb::Error::PreviousIo)
            }
            Self::Shared(error) => error.is_transient(),
            Self::Newer { .. } | Self::TooLarge(_) | Self::Corrupt(_) | Self::Closed => false,
        }
    }
}

impl fmt::Display for RedbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, owner } => {
                let owner = owner.as_deref().unwrap_or("another process");
                write!(f, "{} is in use by {owner}", path.display())
            }
            Self::Open { path, error } => write!(f, "{} cannot be opened: {error}", path.display()),
            Self::Newer { found, known } => {
                write!(
                    f,
                    "the file must have format {known} or an older one, got {found}: a newer version wrote it"
                )
            }
            Self::TooLarge(len) => {
                write!(f, "a payload must have {} bytes at the most, got {len}", Self::LARGEST)
            }
            Self::Corrupt(what) => write!(f, "the file is damaged: {what}"),
            Self::Storage(error) => error.fmt(f),
            Self::Shared(error) => error.fmt(f),
            Self::Closed => f.write_str("the runtime that the file was used on has ended"),
        }
    }
}

impl Error for RedbError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // They are printed themselves.
            Self::Open { error, .. } | Self::Storage(error) => error.source(),
            Self::Shared(error) => error.source(),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for RedbError {
            fn from(error: redb::$error) -> Self {
                Self::Storage(Box::new(error.into()))
            }
        })*
    };
}

from!(StorageError TableError TransactionError CommitError CursorError DatabaseError CompactionError);
