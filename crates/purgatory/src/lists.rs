//! Which operations are watched under which key.
//!
//! Keys are spread over shards by their hashes, each with a lock of its own. No user's code runs under it: keys are hashed
//! before and compared after, and operations are dropped after too. So a condition may call any method of its purgatory.
//!
//! Operations under one hash stand in the order in which they came, by numbers that a shard gives out once. A walk lets go
//! of the lock after each few. It only has to know the number that it has come to, and the one that was next as it
//! began. An operation that ends leaves all lists at once.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{array, ptr, slice};

use equivalent::Equivalent;
use hashbrown::hash_table::{self, HashTable};

use crate::contained;
use crate::error::WatchError;
use crate::sync::{Mutex, lock};

/// So many that threads with different keys seldom meet. A power of two. In a model there is one.
const SHARDS: usize = if cfg!(all(test, loom)) { 1 } else { 64 };

/// How many operations a walk copies under one hold of the lock.
const BATCH: usize = 16;

/// To give back the memory of fewer is not worth it.
const SMALL: usize = 64;

/// An operation in a list, whatever it completes with.
pub(crate) trait Listed<K>: Send + Sync {
    fn places(&self) -> &Places<K>;

    /// Tries the condition. The operation ends if it holds, or else for the reason `end`. If a thread is trying it, leaves
    /// that to that thread. Tells whether this call completed the operation.
    fn check(&self, end: Option<WatchError>) -> bool;

    /// Leaves the condition to the task that awaits the operation, or to the thread that is trying it. Tells whether the
    /// operation is pending.
    fn ask(&self) -> bool;

    /// Ends the operation without trying it, and tells whether this call did. If a thread is trying the condition, the
    /// operation ends when that thread finds that it does not hold.
    fn end(&self, end: WatchError) -> bool;
}

pub(crate) type Item<K> = Arc<dyn Listed<K>>;

/// Where an operation stands in one list.
pub(crate) struct Place<K> {
    shard: Arc<Mutex<Shard<K>>>,
    hash: u64,
    /// Its number there, or `NOWHERE` until it is added. Written under the lock of the shard; it guards no other memory.
    number: AtomicU64,
    /// An operation without a key has to stand somewhere too, to be counted and shut down.
    key: Option<K>,
}

const NOWHERE: u64 = u64::MAX;

impl<K> Place<K> {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// The keys of an operation, each once, and its place under each. It is counted at the first.
pub(crate) enum Places<K> {
    /// Apart, because most have one key.
    One(Place<K>),
    Many(Box<[Place<K>]>),
}

impl<K> Places<K> {
    fn all(&self) -> &[Place<K>] {
        match self {
            Self::One(place) => slice::from_ref(place),
            Self::Many(places) => places,
        }
    }

    /// Adds the operation that has these places to its lists, one after the other. Tells whether they take it; if one does
    /// not, the operation stays in those before that.
    pub(crate) fn add<L: Listed<K> + 'static>(&self, operation: &Arc<L>) -> bool {
        for (n, place) in self.all().iter().enumerate() {
            let item = operation.clone();
            let mut shard = lock(&place.shard);
            if shard.is_closed {
                return false;
            }
            place.number.store(shard.push(place.hash, item), Ordering::Relaxed);
            shard.delayed += usize::from(n == 0);
        }
        true
    }

    /// Takes the operation out of all its lists.
    pub(crate) fn leave(&self) {
        for (n, place) in self.all().iter().enumerate() {
            let mut shard = lock(&place.shard);
            // It may end before it is in all its lists.
            let Some(item) = shard.remove(self, place) else { break };
            shard.delayed -= usize::from(n == 0);
            drop(shard);
            drop(item);
        }
    }

    /// The key under whose hash the operation stands with this number; without one, as the oldest.
    fn key_at(&self, hash: u64, number: Option<u64>) -> Option<&K> {
        let mut alike = self.all().iter().filter(|place| place.hash == hash);
        alike.find(|place| number.is_none_or(|number| number == place.number()))?.key.as_ref()
    }
}

/// The lists of a purgatory.
pub(crate) struct Lists<K> {
    /// Operations hold those that they stand in, so that threads with different keys share no count of references either.
    shards: [Arc<Mutex<Shard<K>>>; SHARDS],
    hasher: RandomState,
}

struct Shard<K> {
    /// The oldest operation under each hash. Most keys have one.
    oldest: HashTable<Oldest<K>>,
    /// The others, by their hashes and numbers. Each came after the oldest under its hash.
    later: BTreeMap<(u64, u64), Item<K>>,
    /// The number of the next item.
    next: u64,
    /// How many operations have their first place here.
    delayed: usize,
    is_closed: bool,
}

/// 24 bytes, because where very many wait each is in a cache line of its own. It has no number: the oldest operation stands
/// there by the first of its places under that hash.
struct Oldest<K> {
    hash: u64,
    item: Item<K>,
}

impl<K> Shard<K> {
    fn push(&mut self, hash: u64, item: Item<K>) -> u64 {
        let number = self.next;
        self.next += 1;
        let later = &self.later;
        let has_later = || later.range((hash, 0)..(hash, number)).next().is_some();
        match self.oldest.entry(hash, |oldest| oldest.hash == hash, |oldest| oldest.hash) {
            // The oldest may have left before later ones.
            hash_table::Entry::Vacant(vacant) if !has_later() => {
                vacant.insert(Oldest { hash, item });
            }
            _ => _ = self.later.insert((hash, number), item),
        }
        number
    }

    fn remove(&mut self, places: &Places<K>, place: &Place<K>) -> Option<Item<K>> {
        let is_own = |oldest: &Oldest<K>| oldest.hash == place.hash && ptr::eq(oldest.item.places(), places);
        let Ok(oldest) = self.oldest.find_entry(place.hash, is_own) else {
            return self.later.remove(&(place.hash, place.number()));
        };
        let item = oldest.remove().0.item;
        let (len, room) = (self.oldest.len(), self.oldest.capacity());
        if room > SMALL && len < room / 16 {
            self.oldest.shrink_to(2 * len, |oldest| oldest.hash);
        }
        Some(item)
    }

    /// Some of the later operations under a hash, from one number to another.
    fn some_later(&self, hash: u64, numbers: Range<u64>) -> Vec<(u64, Item<K>)> {
        if self.later.is_empty() {
            return Vec::new();
        }
        let later = self.later.range((hash, numbers.start)..(hash, numbers.end)).take(BATCH);
        later.map(|(&(_, number), item)| (number, item.clone())).collect()
    }
}

impl<K> Lists<K> {
    pub(crate) fn new() -> Self {
        let shard = |_| {
            let (oldest, later) = (HashTable::new(), BTreeMap::new());
            Arc::new(Mutex::new(Shard { oldest, later, next: 0, delayed: 0, is_closed: false }))
        };
        Self { shards: array::from_fn(shard), hasher: RandomState::new() }
    }

    fn shard(&self, hash: u64) -> &Arc<Mutex<Shard<K>>> {
        // Not by the bits that its table goes by: the lowest and the highest ones.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The places of an operation that is watched under these keys.
    pub(crate) fn places(&self, keys: impl IntoIterator<Item = K>) -> Places<K>
    where
        K: Eq + Hash,
    {
        let place =
            |hash, key| Place { shard: self.shard(hash).clone(), hash, number: AtomicU64::new(NOWHERE), key };
        let mut places = keys.into_iter().map(|key| place(self.hasher.hash_one(&key), Some(key)));
        let first = places.next().unwrap_or_else(|| place(0, None));
        let Some(second) = places.next() else { return Places::One(first) };
        let mut all: Vec<_> = [first, second].into_iter().chain(places).collect();
        // Those with the same hash stand together then.
        all.sort_by_key(|place| place.hash);
        let mut kept: Vec<Place<K>> = Vec::with_capacity(all.len());
        for place in all {
            let mut alike = kept.iter().rev().take_while(|other| other.hash == place.hash);
            if !alike.any(|other| other.key == place.key) {
                kept.push(place);
            }
        }
        Places::Many(kept.into())
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first. Returns for how
    /// many it is true.
    pub(crate) fn count_under(
        &self,
        key: &(impl Hash + Equivalent<K> + ?Sized),
        mut f: impl FnMut(&Item<K>) -> bool,
    ) -> usize {
        let hash = self.hasher.hash_one(key);
        // Different keys may have the same hash, also those of one operation.
        let mut count = 0;
        let mut visit = |number: Option<u64>, item: Item<K>| {
            if item.places().key_at(hash, number).is_some_and(|own| key.equivalent(own)) {
                count += usize::from(f(&item));
            }
            contained(move || drop(item));
        };
        let shard = lock(self.shard(hash));
        let end = shard.next;
        let oldest = shard.oldest.find(hash, |oldest| oldest.hash == hash);
        let oldest = oldest.map(|oldest| oldest.item.clone());
        let mut later = shard.some_later(hash, 0..end);
        drop(shard);
        if let Some(item) = oldest {
            visit(None, item);
        }
        while let Some(&(last, _)) = later.last() {
            let is_all = later.len() < BATCH;
            later.into_iter().for_each(|(number, item)| visit(Some(number), item));
            later = if is_all { Vec::new() } else { lock(self.shard(hash)).some_later(hash, last + 1..end) };
        }
        count
    }

    /// Ends all operations, and takes no more. Returns how many of them this call has ended.
    pub(crate) fn close(&self, end: WatchError) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let mut guard = lock(shard);
            guard.is_closed = true;
            let oldest = guard.oldest.iter().map(|oldest| oldest.item.clone());
            let all: Vec<_> = oldest.chain(guard.later.values().cloned()).collect();
            drop(guard);
            for item in all {
                count += usize::from(item.end(end));
                contained(move || drop(item));
            }
        }
        count
    }

    /// How many places are taken, and how many operations have one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(watched, delayed), shard| {
            let shard = lock(shard);
            (watched + shard.oldest.len() + shard.later.len(), delayed + shard.delayed)
        })
    }
}
