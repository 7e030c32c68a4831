//! How an operation ended.

use std::any::Any;

use super::error::WatchError;

pub(super) enum Outcome<T> {
    Completed(T),
    Unmet(WatchError),
    /// The condition panicked.
    Panicked(Box<dyn Any + Send>),
}
