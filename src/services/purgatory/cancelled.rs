//! Operations that were cancelled, as they are given back.

use std::fmt;
use std::sync::Arc;

use super::listed::Listed;

/// An operation that was cancelled, from [`Purgatory::cancel_and_list`](crate::Purgatory::cancel_and_list).
///
/// It holds the keys of the operation. The condition is gone, and whoever awaits the operation learns that it was
/// cancelled.
pub struct Cancelled<K> {
    operation: Arc<dyn Listed<K>>,
}

impl<K> Cancelled<K> {
    pub(super) const fn new(operation: Arc<dyn Listed<K>>) -> Self {
        Self { operation }
    }

    /// The keys under which the operation was watched, each once, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.operation.places().keys().iter()
    }
}

impl<K: fmt::Debug> fmt::Debug for Cancelled<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancelled").field(&self.keys().collect::<Vec<_>>()).finish()
    }
}
