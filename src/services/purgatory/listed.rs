//! What the lists know of an operation: where it stands in them, and what can be done with it.

use std::borrow::Borrow;
use std::slice;

use super::error::WatchError;
use crate::platform::sync::{AtomicUsize, Ordering};

/// An operation in a list, whatever it completes with.
pub(super) trait Listed<K>: Send + Sync {
    fn places(&self) -> &[Place<K>];

    /// Tries the condition, or leaves that to the thread that is trying it. Returns whether this call completed the
    /// operation.
    fn check(&self) -> bool;

    /// Leaves the condition to the task that awaits the operation, or to the thread that is trying it. Returns whether
    /// the operation was pending.
    fn check_in_task(&self) -> bool;

    /// Ends the operation without trying it, and returns whether this call did. If a thread is trying the condition, the
    /// operation ends when that thread finds that it does not hold.
    fn end(&self, why: WatchError) -> bool;
}

/// A place in a list.
pub(super) struct Place<K> {
    hash: u64,
    /// `None` for an operation without keys, which has to stand somewhere to be counted and shut down.
    key: Option<K>,
    /// The index in the shard of this hash, or `NOWHERE` until the operation is added. Read and written under that shard's
    /// lock, hence relaxed.
    index: AtomicUsize,
}

const NOWHERE: usize = usize::MAX;

impl<K> Place<K> {
    pub(super) fn new(hash: u64, key: Option<K>) -> Self {
        Self { hash, key, index: AtomicUsize::new(NOWHERE) }
    }

    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) const fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// Where the operation stands. Under the lock of its shard.
    pub(super) fn index(&self) -> Option<usize> {
        Some(self.index.load(Ordering::Relaxed)).filter(|&index| index != NOWHERE)
    }

    /// Under the lock of its shard.
    pub(super) fn set_index(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
    }

    /// Whether `key` is what the operation is watched under here.
    pub(super) fn is_under<Q: Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.key.as_ref().is_some_and(|own| own.borrow() == key)
    }

    fn is_same(&self, other: &Self) -> bool
    where
        K: Eq,
    {
        self.hash == other.hash && self.key == other.key
    }
}

/// The places of an operation. Most have one or two keys, and keep them without another block of memory.
pub(super) enum Places<K> {
    One(Place<K>),
    Two([Place<K>; 2]),
    Many(Box<[Place<K>]>),
}

impl<K: Eq> Places<K> {
    /// One place for each key, however often it is named. `place` makes one, also without a key.
    pub(super) fn new(keys: impl IntoIterator<Item = K>, place: impl Fn(Option<K>) -> Place<K>) -> Self {
        let mut places = keys.into_iter().map(|key| place(Some(key)));
        let Some(first) = places.next() else { return Self::One(place(None)) };
        let Some(second) = places.find(|other| !other.is_same(&first)) else { return Self::One(first) };
        let Some(third) = places.next() else { return Self::Two([first, second]) };
        let mut all: Vec<_> = [first, second, third].into_iter().chain(places).collect();
        all.sort_unstable_by_key(Place::hash);
        all.dedup_by(|a, b| a.is_same(b));
        Self::Many(all.into_boxed_slice())
    }
}

impl<K> Places<K> {
    pub(super) fn as_slice(&self) -> &[Place<K>] {
        match self {
            Self::One(place) => slice::from_ref(place),
            Self::Two(places) => places,
            Self::Many(places) => places,
        }
    }
}
