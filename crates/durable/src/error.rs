//! Errors of calls, and panics of users' code.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::id::TimerId;
use crate::store::Store;

/// Why a call failed. [`source`](StdError::source) has the cause, which the text does not repeat.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store failed: the call has done all of its work or none, and only looking tells which. The text and the cause are
    /// those of the store's error.
    Store {
        /// The store's error. All saves that went to it together have the same.
        source: Arc<dyn StdError + Send + Sync>,
        /// Whether the same call may succeed a little later.
        is_transient: bool,
    },
    /// The key belongs to this timer, which is stored or has begun.
    KeyTaken(TimerId),
    /// The payload could not be written as JSON, or not be read again: JSON has no number that is NaN or infinite.
    Encode(serde_json::Error),
    /// A key is not allowed.
    Key(String),
    /// A payload is [too large](crate::store::LARGEST_PAYLOAD).
    Payload(String),
    /// [`stop`](crate::Durable::stop) was called, the wheel has ended, or the runtime has. Nothing was done, with one
    /// exception: if the runtime ends or the store panics during a call, the call may have been done.
    Stopped,
    /// Another instance has taken over the store, and this one does nothing more.
    Lost,
    /// A task of these durable timers has panicked, as by a clock or a store of yours. Start the program again.
    Failed,
    /// A rule cannot be stored, because it could not be read from its text: its zone has no name, or the text is too long. In words.
    Rule(String),
    /// A setting of the builder is not allowed.
    Setting(String),
}

impl Error {
    pub(crate) fn store<S: Store>(error: S::Error) -> Self {
        let is_transient = S::is_transient(&error);
        Self::Store { source: Arc::new(error), is_transient }
    }

    /// Whether the same call may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Store { is_transient: true, .. })
    }

    /// Whether somebody holds what the call would change, and nothing was done.
    pub(crate) fn is_locked(&self) -> bool {
        #[cfg(feature = "postgres")]
        if let Self::Store { source, .. } = self {
            return source
                .downcast_ref::<crate::PostgresError>()
                .is_some_and(crate::PostgresError::is_locked);
        }
        false
    }

    /// Whether the store has a format that only newer programs know.
    pub(crate) fn is_too_old(&self) -> bool {
        #[cfg(feature = "postgres")]
        if let Self::Store { source, .. } = self {
            return matches!(source.downcast_ref(), Some(crate::PostgresError::Format { .. }));
        }
        false
    }

    /// The same, for others that it concerns. Only stores fail for many at once.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Store { source, is_transient } => {
                Self::Store { source: Arc::clone(source), is_transient: *is_transient }
            }
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { source, .. } => source.fmt(f),
            Self::KeyTaken(id) => write!(f, "the key belongs to the timer {id}"),
            Self::Encode(_) => f.write_str("the payload could not be written as JSON, or not be read again"),
            Self::Stopped => f.write_str(
                "these durable timers have stopped: nothing was done, unless the runtime ended during the call",
            ),
            Self::Lost => f.write_str("another instance has taken over the store of timers"),
            Self::Failed => {
                f.write_str("a task of durable timers has panicked: the program has to start again")
            }
            Self::Setting(what) | Self::Key(what) | Self::Payload(what) | Self::Rule(what) => f.write_str(what),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store { source, .. } => source.source(),
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}

/// An error with its causes, in one line. A cause that the line ends with already is left out: some errors print theirs.
pub(crate) fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |told, cause| {
        let cause = cause.to_string();
        if told.ends_with(&cause) { told } else { format!("{told}: {cause}") }
    })
}

/// How many characters of an error are stored.
const LONGEST: usize = 10_000;

/// The beginning of a text that is to be stored.
pub(crate) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
    }
    text
}

/// Calls users' code. The panic hook reports a panic, and nobody else hears of it.
pub(crate) fn contained(call: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        drop_panic(panic);
    }
}

/// The payload of a panic may panic as it is dropped, and so may the payload of that panic: the second one is forgotten.
fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// The text of a panic, whose payload is dropped.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of another type").to_owned();
    drop_panic(panic);
    text
}
