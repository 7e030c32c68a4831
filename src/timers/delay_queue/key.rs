//! The key of an item in the queue, and the form in which an item leaves the queue.

use std::fmt;
use std::hash::{Hash, Hasher};

use tokio::time::Instant;

/// Names an item of a [`DelayQueue`](super::DelayQueue).
///
/// Once its item has left the queue, a key is stale: it finds nothing, now or later, because no two items of a queue have
/// the same key. In another queue it may name another item.
#[derive(Clone, Copy)]
pub struct Key {
    /// Counts the insertions of its queue, so no two keys of that have the same.
    pub(super) number: u64,
    /// Where to look first: `DelayQueue::compact` may have moved the item.
    pub(super) index: usize,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, index: _ } = self;
        write!(f, "Key(of insertion {number})")
    }
}

/// Panics, because a key names no item.
#[cold]
#[track_caller]
pub(super) fn stale(key: &Key) -> ! {
    panic!("{key:?} names no item of this delay queue: it was handed out or removed, or is another queue's")
}

/// An item that has left its [`DelayQueue`](super::DelayQueue), because its deadline came or because it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    pub(super) value: T,
    pub(super) deadline: Instant,
    pub(super) key: Key,
}

impl<T> Expired<T> {
    /// The value.
    #[must_use]
    pub const fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value.
    #[must_use = "the value is in no queue any more"]
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The deadline that was set last.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The item's key, which is stale now.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }
}
