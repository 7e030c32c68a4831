//! What the lists know of an operation: where it stands in them, and what can be done with it.

use std::slice;

use super::error::WatchError;
use crate::platform::sync::{AtomicU64, Ordering};

/// An operation in a list, whatever it completes with.
pub(super) trait Listed<K>: Send + Sync {
    fn places(&self) -> &Places<K>;

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

/// Where an operation stands in one list.
pub(super) struct Place {
    hash: u64,
    /// The number in the list of this hash, or `NOWHERE` until the operation is added. Read and written under the lock of
    /// that list's shard, hence relaxed.
    number: AtomicU64,
}

const NOWHERE: u64 = u64::MAX;

impl Place {
    #[inline]
    fn new(hash: u64) -> Self {
        Self { hash, number: AtomicU64::new(NOWHERE) }
    }

    #[inline]
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Where the operation stands. Under the lock of its shard.
    #[inline]
    pub(super) fn number(&self) -> Option<u64> {
        Some(self.number.load(Ordering::Relaxed)).filter(|&number| number != NOWHERE)
    }

    /// Under the lock of its shard.
    #[inline]
    pub(super) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }
}

/// The keys of an operation, and its place under each. Most have one or two keys, and keep them without another block of
/// memory.
pub(super) enum Places<K> {
    /// It has to stand somewhere to be counted and shut down.
    Keyless(Place),
    One(Place, K),
    Two([Place; 2], [K; 2]),
    Many(Box<[Place]>, Box<[K]>),
}

impl<K: Eq> Places<K> {
    /// One place for each key, however often it is named.
    #[inline]
    pub(super) fn new(keys: impl IntoIterator<Item = K>, hash: impl Fn(&K) -> u64) -> Self {
        let mut keys = keys.into_iter().map(|key| (hash(&key), key));
        let Some(first) = keys.next() else { return Self::Keyless(Place::new(0)) };
        let Some(second) = keys.find(|other| *other != first) else {
            return Self::One(Place::new(first.0), first.1);
        };
        let Some(third) = keys.next() else {
            return Self::Two([first.0, second.0].map(Place::new), [first.1, second.1]);
        };
        let mut all: Vec<_> = [first, second, third].into_iter().chain(keys).collect();
        all.sort_by_key(|&(hash, _)| hash);
        let (mut places, mut keys) = (Vec::<Place>::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for (hash, key) in all {
            // Different keys may have the same hash, and then stand in any order.
            let alike = places.iter().rev().take_while(|place| place.hash == hash).count();
            if !keys[keys.len() - alike..].contains(&key) {
                places.push(Place::new(hash));
                keys.push(key);
            }
        }
        Self::Many(places.into_boxed_slice(), keys.into_boxed_slice())
    }
}

impl<K> Places<K> {
    #[inline]
    pub(super) fn all(&self) -> &[Place] {
        match self {
            Self::Keyless(place) | Self::One(place, _) => slice::from_ref(place),
            Self::Two(places, _) => places,
            Self::Many(places, _) => places,
        }
    }

    /// The key under whose hash the operation stands with this number.
    pub(super) fn key_at(&self, hash: u64, number: u64) -> Option<&K> {
        let is_here = |place: &Place| place.hash() == hash && place.number() == Some(number);
        self.keys().get(self.all().iter().position(is_here)?)
    }

    /// In the order of their places.
    #[inline]
    pub(super) fn keys(&self) -> &[K] {
        match self {
            Self::Keyless(_) => &[],
            Self::One(_, key) => slice::from_ref(key),
            Self::Two(_, keys) => keys,
            Self::Many(_, keys) => keys,
        }
    }
}
