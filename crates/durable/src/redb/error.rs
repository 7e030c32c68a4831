//! Errors of a file.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a [`RedbStore`](super::RedbStore) failed. The text has the cause, and so [`source`](Error::source) has none.
///
/// Calls that were one transaction have the same error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RedbError {
    /// A process has the file.
    InUse {
        /// The file.
        path: PathBuf,
        /// Its owner, as far as that is noted.
        owner: Option<String>,
    },
    /// The file could not be opened or made.
    Open {
        /// The file.
        path: PathBuf,
        /// Why: the file or its folder is missing, or this process may not write it.
        error: Arc<redb::Error>,
    },
    /// The file is damaged, or was never one of timers. A damaged timer alone is no error:
    /// [`Stats::damaged`](crate::Stats::damaged) counts it.
    Damaged {
        /// The file, unless it is other storage.
        path: Option<PathBuf>,
        /// The fault, in words.
        what: String,
    },
    /// A newer version of this crate has written the file.
    Newer {
        /// The file, unless it is other storage.
        path: Option<PathBuf>,
        /// The file's format.
        found: u64,
        /// The newest that this version knows.
        known: u64,
    },
    /// A call failed, and nothing of it was done.
    Storage {
        /// The file, unless it is other storage.
        path: Option<PathBuf>,
        /// Why.
        error: Arc<redb::Error>,
    },
    /// A damaged key hid other timers. These are in order again, and nothing of the call was done. The next call finds them.
    Reordered {
        /// The file, unless it is other storage.
        path: Option<PathBuf>,
    },
    /// The store's thread has panicked. The call was done or not.
    Closed,
}

impl RedbError {
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::InUse { .. } | Self::Reordered { .. } => true,
            // A disk that is full, or gone for a while; the file is opened again for the next call.
            Self::Open { error, .. } | Self::Storage { error, .. } => {
                matches!(**error, redb::Error::Io(_) | redb::Error::PreviousIo)
            }
            Self::Damaged { .. } | Self::Newer { .. } | Self::Closed => false,
        }
    }

    /// An error of the file's engine, with the file.
    pub(super) fn of(self, file: Option<&Path>) -> Self {
        let mut error = match self {
            Self::Storage { error, .. } if is_damage(&error) => {
                Self::Damaged { path: None, what: error.to_string() }
            }
            other => other,
        };
        if let Self::Damaged { path, .. }
        | Self::Newer { path, .. }
        | Self::Storage { path, .. }
        | Self::Reordered { path } = &mut error
        {
            *path = file.map(PathBuf::from);
        }
        error
    }
}

/// Without the prefix "I/O error", which says no more than the system's own words.
fn cause(error: &redb::Error) -> &dyn fmt::Display {
    match error {
        redb::Error::Io(error) => error,
        error => error,
    }
}

/// Whether the bytes of the file are not those that were written.
pub(super) fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(error) => {
            matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData)
        }
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::UpgradeRequired(_) => true,
        _ => false,
    }
}

fn named(path: Option<&Path>) -> std::borrow::Cow<'_, str> {
    path.map_or("the storage".into(), |path| path.display().to_string().into())
}

impl fmt::Display for RedbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, owner } => {
                let owner = owner.as_deref().unwrap_or("another process");
                write!(f, "{} is in use by {owner}", path.display())
            }
            Self::Open { path, error } if path.as_os_str().is_empty() => {
                write!(f, "an empty path cannot be opened: {}", cause(error))
            }
            Self::Open { path, error } => {
                write!(f, "{} cannot be opened: {}", path.display(), cause(error))
            }
            Self::Damaged { path, what } => {
                write!(f, "{} is damaged, or is no file of timers: {what}", named(path.as_deref()))
            }
            Self::Newer { path, found, known } => {
                let path = named(path.as_deref());
                write!(
                    f,
                    "{path} must have format {known} or an older one, got {found}: a newer version wrote it"
                )
            }
            Self::Storage { path, error } => {
                write!(f, "{} cannot be read or written: {}", named(path.as_deref()), cause(error))
            }
            Self::Reordered { path } => {
                let path = named(path.as_deref());
                write!(
                    f,
                    "a damaged key in {path} hid other timers, which are in order again: repeat the call"
                )
            }
            Self::Closed => f.write_str("the thread of the file has panicked"),
        }
    }
}

impl Error for RedbError {}

impl<E: Into<redb::Error>> From<E> for RedbError {
    fn from(error: E) -> Self {
        Self::Storage { path: None, error: Arc::new(error.into()) }
    }
}
