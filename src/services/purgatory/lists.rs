//! Which operations are watched under which key.
//!
//! A shard has one ordered map for all its keys, from a key's hash and a number that rises with each insertion to the
//! operation. So the operations under a key stand together and in order, one is added or taken out in logarithmic time
//! however many there are, what is taken out leaves nothing behind, and whoever goes through them can let go of the
//! lock and find the place again, whatever happened meanwhile.
//!
//! Keys are hashed before the lock is taken and compared after it is let go; operations are dropped after that too. No
//! code of a user's runs under these locks, so a condition may call any method of its purgatory, or of another.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use super::operation::Watched;
use crate::platform::sync::{AtomicU64, Ordering, OwnLines, ShortLock};

/// So many that threads which use different keys seldom meet, at 128 bytes each. A power of two.
const SHARDS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };

/// How many operations are taken from a list at a time.
const BATCH: usize = 16;

/// The lists of a purgatory.
pub(super) struct Lists<K> {
    shards: Box<[OwnLines<ShortLock<Shard<K>>>]>,
    hasher: RandomState,
}

struct Shard<K> {
    references: BTreeMap<(u64, u64), Arc<dyn Watched<K>>>,
    /// The number of the next insertion.
    next: u64,
    /// How many operations have their first place here.
    operations: usize,
    /// Takes no more.
    is_closed: bool,
}

/// A place in a list.
pub(super) struct Place<K> {
    hash: u64,
    /// `None` for an operation without keys, which has to stand somewhere to be counted and shut down.
    key: Option<K>,
    /// `NOWHERE` until the operation is added. Written by the thread that adds it and has its condition, read by the
    /// one that has its condition when it ends; the operation's lock lies in between.
    number: AtomicU64,
}

const NOWHERE: u64 = 0;

impl<K> Place<K> {
    fn new(hash: u64, key: Option<K>) -> Self {
        Self { hash, key, number: AtomicU64::new(NOWHERE) }
    }

    /// Whether `key` is what the operation is watched under here.
    pub(super) fn is_under<Q: Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.key.as_ref().is_some_and(|own| own.borrow() == key)
    }
}

impl<K> Lists<K> {
    pub(super) fn new() -> Self {
        let shard =
            || Shard { references: BTreeMap::new(), next: NOWHERE + 1, operations: 0, is_closed: false };
        Self {
            shards: (0..SHARDS).map(|_| OwnLines(ShortLock::new(shard()))).collect(),
            hasher: RandomState::new(),
        }
    }

    fn shard(&self, hash: u64) -> &ShortLock<Shard<K>> {
        &self.shards[usize::try_from(hash % SHARDS as u64).expect("less than `SHARDS`")]
    }

    /// The places of an operation that is watched under these keys: one for each, however often it is named.
    pub(super) fn places(&self, keys: impl IntoIterator<Item = K>) -> Box<[Place<K>]>
    where
        K: Eq + Hash,
    {
        let place = |key: K| Place::new(self.hasher.hash_one(&key), Some(key));
        let mut places: Vec<_> = keys.into_iter().map(place).collect();
        places.sort_unstable_by_key(|place| place.hash);
        places.dedup_by(|a, b| a.hash == b.hash && a.key == b.key);
        if places.is_empty() {
            places.push(Place::new(0, None));
        }
        places.into_boxed_slice()
    }

    /// Adds an operation to all its lists, one after the other. Returns whether they take it; if one does not, it
    /// stands in those before that.
    pub(super) fn add(&self, operation: &Arc<dyn Watched<K>>) -> bool {
        for (nth, place) in operation.places().iter().enumerate() {
            let reference = operation.clone();
            let mut shard = self.shard(place.hash).lock();
            if shard.is_closed {
                return false;
            }
            let number = shard.next;
            shard.next += 1;
            shard.references.insert((place.hash, number), reference);
            shard.operations += usize::from(nth == 0);
            place.number.store(number, Ordering::Relaxed);
        }
        true
    }

    /// Takes an operation out of all lists that it stands in.
    pub(super) fn remove(&self, places: &[Place<K>]) {
        for (nth, place) in places.iter().enumerate() {
            let number = place.number.load(Ordering::Relaxed);
            if number == NOWHERE {
                break;
            }
            let mut shard = self.shard(place.hash).lock();
            let reference = shard.references.remove(&(place.hash, number));
            shard.operations -= usize::from(nth == 0);
            drop(shard);
            drop(reference);
        }
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first.
    pub(super) fn each_under<Q: Eq + Hash + ?Sized>(&self, key: &Q, mut f: impl FnMut(Arc<dyn Watched<K>>))
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        // Different keys may have the same hash.
        let is_under =
            |operation: &dyn Watched<K>| operation.places().iter().any(|place| place.is_under(key));
        self.each(self.shard(hash), Some(hash), |operation| {
            if is_under(&*operation) {
                f(operation);
            }
        });
    }

    /// Takes no more operations, and calls `f` with all that are here, once for each place.
    pub(super) fn close(&self, mut f: impl FnMut(Arc<dyn Watched<K>>)) {
        for shard in &self.shards {
            shard.lock().is_closed = true;
            self.each(shard, None, &mut f);
        }
    }

    /// Calls `f` with what stands in a shard as this begins, under one hash or all.
    fn each(&self, shard: &ShortLock<Shard<K>>, hash: Option<u64>, mut f: impl FnMut(Arc<dyn Watched<K>>)) {
        let mut from = (hash.unwrap_or(u64::MIN), NOWHERE);
        let mut end = None;
        loop {
            let mut batch = [const { None }; BATCH];
            let shard = shard.lock();
            let end = *end.get_or_insert((hash.unwrap_or(u64::MAX), shard.next));
            for (copy, (&(hash, number), operation)) in
                batch.iter_mut().zip(shard.references.range(from..end))
            {
                *copy = Some(operation.clone());
                // There are never so many that it wraps.
                from = (hash, number + 1);
            }
            drop(shard);
            let is_full = batch[BATCH - 1].is_some();
            batch.into_iter().flatten().for_each(&mut f);
            if !is_full {
                return;
            }
        }
    }

    /// How many places are taken.
    pub(super) fn watched(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().references.len()).sum()
    }

    /// How many operations have a place.
    pub(super) fn delayed(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().operations).sum()
    }
}
