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

use super::links::{BATCH, Found, Links, Marks};
use super::listed::{Listed, Place, Places};
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

    fn lock(&self, hash: u64) -> ShortLockGuard<'_, Shard<K>> {
        self.shards[number(hash)].lock()
    }

    /// The places of an operation that is watched under these keys.
    pub(super) fn places(&self, keys: impl IntoIterator<Item = K>) -> Places<K>
    where
        K: Eq + Hash,
    {
        Places::new(keys, |key| Place::new(key.as_ref().map_or(0, |key| self.hasher.hash_one(key)), key))
    }

    /// Adds an operation to all its lists, one after the other. Returns whether they take it; if one does not, the
    /// operation stays in those before that.
    pub(super) fn add<L: Listed<K> + 'static>(&self, operation: &Arc<L>) -> bool {
        for (nth, place) in operation.places().iter().enumerate() {
            let reference = operation.clone();
            let mut shard = self.lock(place.hash());
            if shard.is_closed {
                return false;
            }
            place.set_index(shard.links.push(place.hash(), reference));
            shard.operations += usize::from(nth == 0);
        }
        true
    }

    /// Takes an operation out of all lists that it stands in.
    pub(super) fn remove(&self, places: &[Place<K>]) {
        for (nth, place) in places.iter().enumerate() {
            let mut shard = self.lock(place.hash());
            let Some(index) = place.index() else { break };
            let reference = shard.links.remove(place.hash(), index);
            shard.operations -= usize::from(nth == 0);
            shard.tidy();
            drop(shard);
            drop(reference);
        }
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first.
    pub(super) fn each_under<Q: Eq + Hash + ?Sized>(&self, key: &Q, mut f: impl FnMut(Arc<dyn Listed<K>>))
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        // Different keys may have the same hash.
        let mut f = |operation: Arc<dyn Listed<K>>| {
            if operation.places().iter().any(|place| place.is_under(key)) {
                f(operation);
            }
        };
        let shard = self.lock(hash);
        let found = shard.links.find(hash);
        drop(shard);
        match found {
            Found::None => {}
            Found::One(operation) => f(operation),
            Found::Several => self.each_of(hash, f),
        }
    }

    /// Calls `f` with each operation that stands under `hash` as this begins.
    fn each_of(&self, hash: u64, mut f: impl FnMut(Arc<dyn Listed<K>>)) {
        let mut batch = [const { None }; BATCH];
        let marks = self.lock(hash).links.begin(hash, &mut batch);
        let mut walk = Walk { lists: self, hash, marks };
        loop {
            batch.iter_mut().filter_map(Option::take).for_each(&mut f);
            if !walk.go_on(&mut batch) {
                return;
            }
        }
    }

    /// Takes no more operations, and calls `f` with all that are here, once for each place.
    pub(super) fn close(&self, mut f: impl FnMut(Arc<dyn Listed<K>>)) {
        for shard in &self.shards {
            shard.lock().is_closed = true;
            Self::each_in(shard, |_, operation| f(operation));
        }
    }

    /// Calls `f` with the key of each place that is taken.
    pub(super) fn each_key(&self, mut f: impl FnMut(&K)) {
        for (nth, shard) in self.shards.iter().enumerate() {
            Self::each_in(shard, |index, operation| {
                let is_here = |place: &&Place<K>| number(place.hash()) == nth && place.index() == Some(index);
                // It may have left meanwhile.
                if let Some(key) = operation.places().iter().find(is_here).and_then(Place::key) {
                    f(key);
                }
            });
        }
    }

    fn each_in(shard: &ShortLock<Shard<K>>, mut f: impl FnMut(usize, Arc<dyn Listed<K>>)) {
        let mut from = Some(0);
        while let Some(index) = from {
            let mut batch = [const { None }; BATCH];
            from = shard.lock().links.copy_all(index, &mut batch);
            batch.into_iter().flatten().for_each(|(index, operation)| f(index, operation));
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

impl<K> Shard<K> {
    #[inline]
    fn tidy(&mut self) {
        // Whoever goes through a closed shard goes by indices.
        if self.is_closed {
            return;
        }
        self.links.tidy(|hash, operation, old, new| {
            // Of two places with one hash it does not matter which has which index.
            let is_meant = |place: &&Place<K>| place.hash() == hash && place.index() == Some(old);
            if let Some(place) = operation.places().iter().find(is_meant) {
                place.set_index(new);
            }
        });
    }
}

/// A walk over a long list, whose marks leave with it also where a user's comparison panics.
struct Walk<'a, K> {
    lists: &'a Lists<K>,
    hash: u64,
    marks: Option<Marks>,
}

impl<K> Walk<'_, K> {
    /// Copies the next operations. Returns whether it was not at its end before.
    fn go_on(&mut self, batch: &mut [Option<Arc<dyn Listed<K>>>; BATCH]) -> bool {
        let Some(marks) = self.marks else { return false };
        let has_more = self.lists.lock(self.hash).links.go_on(self.hash, marks, batch);
        if !has_more {
            self.marks = None;
        }
        true
    }
}

impl<K> Drop for Walk<'_, K> {
    fn drop(&mut self) {
        if let Some(marks) = self.marks {
            self.lists.lock(self.hash).links.leave(self.hash, marks);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::hash::Hasher;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::services::purgatory::error::WatchError;

    struct CannotBeCompared;

    impl Hash for CannotBeCompared {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    impl PartialEq for CannotBeCompared {
        fn eq(&self, _: &Self) -> bool {
            panic!("as asked");
        }
    }

    impl Eq for CannotBeCompared {}

    struct Waits(Places<CannotBeCompared>);

    impl Listed<CannotBeCompared> for Waits {
        fn places(&self) -> &[Place<CannotBeCompared>] {
            self.0.as_slice()
        }

        fn check(&self) -> bool {
            false
        }

        fn check_in_task(&self) -> bool {
            false
        }

        fn end(&self, _why: WatchError) -> bool {
            false
        }
    }

    #[test]
    fn a_walk_that_a_comparison_ends_leaves_no_marks_in_a_long_list() {
        let lists = Lists::new();
        let operations: Vec<_> =
            (0..2 * BATCH).map(|_| Arc::new(Waits(lists.places([CannotBeCompared])))).collect();
        assert!(operations.iter().all(|operation| lists.add(operation)));
        let walk = || lists.each_under(&CannotBeCompared, |_| unreachable!("it compares before"));
        assert!(catch_unwind(AssertUnwindSafe(walk)).is_err());
        operations.iter().for_each(|operation| lists.remove(operation.places()));
        let hash = lists.hasher.hash_one(&CannotBeCompared);
        assert!(matches!(lists.lock(hash).links.find(hash), Found::None));
    }
}
