//! Which operations are watched under which key.
//!
//! Keys are spread over shards by their hashes. A shard has one [`Links`] for all its keys: an operation is added and
//! taken out in constant time, however many there are, and leaves nothing behind.
//!
//! Keys are hashed before the lock is taken and compared after it is let go; operations are dropped after that too. No
//! user's code runs under these locks, so a condition may call any method of its purgatory, or of another.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use super::links::{BATCH, Found, Links, Position};
use super::listed::{Listed, Places};
use crate::platform::sync::{OwnLines, ShortLock, ShortLockGuard};

/// So many that threads with different keys seldom meet, at 128 bytes each. A power of two.
const SHARDS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };

/// The lists of a purgatory.
pub(super) struct Lists<K> {
    shards: Box<[OwnLines<ShortLock<Shard<K>>>]>,
    hasher: RandomState,
}

struct Shard<K> {
    links: Links<Arc<dyn Listed<K>>>,
    /// How many operations have their first place here.
    operations: usize,
    /// Takes no more.
    is_closed: bool,
}

/// Which shard has this hash. Not by the bits that its table goes by: the lowest and the highest ones.
#[inline]
fn number(hash: u64) -> usize {
    usize::try_from((hash >> 32) % SHARDS as u64).expect("less than `SHARDS`")
}

impl<K> Lists<K> {
    pub(super) fn new() -> Self {
        let shard = || Shard { links: Links::new(), operations: 0, is_closed: false };
        Self {
            shards: (0..SHARDS).map(|_| OwnLines(ShortLock::new(shard()))).collect(),
            hasher: RandomState::new(),
        }
    }

    #[inline]
    fn lock(&self, hash: u64) -> ShortLockGuard<'_, Shard<K>> {
        self.shards[number(hash)].lock()
    }

    /// The places of an operation that is watched under these keys.
    #[inline]
    pub(super) fn places(&self, keys: impl IntoIterator<Item = K>) -> Places<K>
    where
        K: Eq + Hash,
    {
        Places::new(keys, |key| self.hasher.hash_one(key))
    }

    /// Adds an operation to all its lists, one after the other. Returns whether they take it; if one does not, the
    /// operation stays in those before that.
    #[inline]
    pub(super) fn add<L: Listed<K> + 'static>(&self, operation: &Arc<L>) -> bool {
        for (nth, place) in operation.places().all().iter().enumerate() {
            let reference = operation.clone();
            let mut shard = self.lock(place.hash());
            if shard.is_closed {
                return false;
            }
            place.set_number(shard.links.push(place.hash(), reference));
            shard.operations += usize::from(nth == 0);
        }
        true
    }

    /// Takes an operation out of all lists that it stands in.
    #[inline]
    pub(super) fn remove(&self, places: &Places<K>) {
        for (nth, place) in places.all().iter().enumerate() {
            let mut shard = self.lock(place.hash());
            let Some(number) = place.number() else { break };
            let reference = shard.links.remove(place.hash(), number);
            shard.operations -= usize::from(nth == 0);
            // Whoever goes through a closed shard goes by what stands where.
            if !shard.is_closed {
                shard.links.tidy();
            }
            drop(shard);
            drop(reference);
        }
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first.
    #[inline]
    pub(super) fn each_under<Q: Eq + Hash + ?Sized>(&self, key: &Q, mut f: impl FnMut(Arc<dyn Listed<K>>))
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let shard = self.lock(hash);
        let found = shard.links.find(hash);
        drop(shard);
        // Different keys may have the same hash, also those of one operation.
        match found {
            Found::None => {}
            Found::One(operation) => {
                if operation.places().keys().iter().any(|own| own.borrow() == key) {
                    f(operation);
                }
            }
            Found::Several => self.each_of(hash, |(number, operation)| {
                if operation.places().key_at(hash, number).is_some_and(|own| own.borrow() == key) {
                    f(operation);
                }
            }),
        }
    }

    /// Calls `f` with each operation that stands under `hash` as this begins, and its number there.
    fn each_of(&self, hash: u64, mut f: impl FnMut((u64, Arc<dyn Listed<K>>))) {
        let mut batch = [const { None }; BATCH];
        let mut rest = self.lock(hash).links.begin(hash, &mut batch);
        loop {
            batch.iter_mut().filter_map(Option::take).for_each(&mut f);
            let Some(left) = rest else { return };
            rest = self.lock(hash).links.go_on(hash, left, &mut batch);
        }
    }

    /// Takes no more operations, and calls `f` with all that are here, once for each place.
    pub(super) fn close(&self, mut f: impl FnMut(Arc<dyn Listed<K>>)) {
        for shard in &self.shards {
            shard.lock().is_closed = true;
            Self::each_in(shard, |_, _, operation| f(operation));
        }
    }

    /// Calls `f` with the key of each place that is taken.
    pub(super) fn each_key(&self, mut f: impl FnMut(&K)) {
        for shard in &self.shards {
            // It may have left meanwhile.
            Self::each_in(shard, |hash, number, operation| {
                operation.places().key_at(hash, number).into_iter().for_each(&mut f);
            });
        }
    }

    fn each_in(shard: &ShortLock<Shard<K>>, mut f: impl FnMut(u64, u64, Arc<dyn Listed<K>>)) {
        let mut from = Some(Position::START);
        while let Some(position) = from {
            let mut batch = [const { None }; BATCH];
            from = shard.lock().links.copy_all(position, &mut batch);
            batch.into_iter().flatten().for_each(|(hash, number, operation)| f(hash, number, operation));
        }
    }

    /// How many places are taken.
    pub(super) fn watched(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().links.len()).sum()
    }

    /// How many operations have a place.
    pub(super) fn delayed(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().operations).sum()
    }
}
