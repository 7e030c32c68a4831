//! How an operation ended.

use std::any::Any;

use super::error::WatchError;

/// Boxed twice: panics are rare, and each operation has room for its outcome.
pub(super) type Panic = Box<Box<dyn Any + Send>>;

pub(super) enum Outcome<T> {
    Completed(T),
    Unmet(WatchError),
    /// The condition panicked.
    Panicked(Panic),
}
