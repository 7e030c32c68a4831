//! Which operations are watched under which key.
//!
//! Keys are spread over shards by their hashes, each with a lock of its own. No user's code runs under it: keys are hashed
//! before and compared after, and operations are dropped after too. So a condition may call any method of its purgatory.
//!
//! Operations under one hash stand in the order in which they came, by numbers that a shard gives out once. So a walk,
//! which lets go of the lock after each few, only has to know the number that it has come to, and the one that was next as
//! it began. Whoever ends leaves all lists at once.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::error::WatchError;
use crate::lock;

/// So many that threads with different keys seldom meet. A power of two.
const SHARDS: usize = 64;

/// How many operations a walk copies under one hold of the lock.
const BATCH: usize = 16;

/// To give back the memory of fewer is not worth it.
const SMALL: usize = 64;

/// An operation in a list, whatever it completes with.
pub(crate) trait Listed<K>: Send + Sync {
    fn places(&self) -> &Places<K>;

    /// Tries the condition, or leaves that to the thread that is trying it. Tells whether this call completed the
    /// operation.
    fn check(&self) -> bool;

    /// Leaves the condition to the task that awaits the operation, or to the thread that is trying it. Tells whether the
    /// operation was pending.
    fn check_in_task(&self) -> bool;

    /// Ends the operation without trying it, and tells whether this call did. If a thread is trying the condition, the
    /// operation ends when that thread finds that it does not hold.
    fn end(&self, why: WatchError) -> bool;
}

/// Where an operation stands in one list.
pub(crate) struct Place {
    hash: u64,
    /// Its number there, or `NOWHERE` until it is added. Written under the lock of the shard; it guards no other memory.
    number: AtomicU64,
}

const NOWHERE: u64 = u64::MAX;

impl Place {
    const fn new(hash: u64) -> Self {
        Self { hash, number: AtomicU64::new(NOWHERE) }
    }

    fn is_at(&self, hash: u64, number: u64) -> bool {
        self.hash == hash && self.number.load(Ordering::Relaxed) == number
    }
}

/// The keys of an operation, each once, and its place under each.
pub(crate) struct Places<K> {
    /// Also of an operation without a key, which has to stand somewhere to be counted and shut down.
    first: Place,
    key: Option<K>,
    /// Boxed, because most have one key.
    more: Option<Box<[(Place, K)]>>,
}

impl<K> Places<K> {
    fn new(keys: impl IntoIterator<Item = K>, hash: impl Fn(&K) -> u64) -> Self
    where
        K: Eq,
    {
        let mut keys = keys.into_iter().map(|key| (hash(&key), key));
        let Some((first, key)) = keys.next() else {
            return Self { first: Place::new(0), key: None, more: None };
        };
        let mut others: Vec<_> = keys.collect();
        // Those with the same hash stand together then.
        others.sort_by_key(|&(hash, _)| hash);
        let mut more = Vec::<(Place, K)>::with_capacity(others.len());
        for (hash, other) in others {
            let mut alike = more.iter().rev().take_while(|(place, _)| place.hash == hash);
            if !(hash == first && other == key) && alike.all(|(_, known)| *known != other) {
                more.push((Place::new(hash), other));
            }
        }
        let more = (!more.is_empty()).then(|| more.into_boxed_slice());
        Self { first: Place::new(first), key: Some(key), more }
    }

    fn all(&self) -> impl Iterator<Item = (&Place, Option<&K>)> {
        let more = self.more.iter().flatten().map(|(place, key)| (place, Some(key)));
        [(&self.first, self.key.as_ref())].into_iter().chain(more)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.all().filter_map(|(_, key)| key)
    }

    /// The key under whose hash the operation stands with this number.
    fn key_at(&self, hash: u64, number: u64) -> Option<&K> {
        self.all().find(|(place, _)| place.is_at(hash, number))?.1
    }
}

/// The lists of a purgatory.
pub(crate) struct Lists<K> {
    shards: Box<[Mutex<Shard<K>>]>,
    hasher: RandomState,
}

type Item<K> = Arc<dyn Listed<K>>;

struct Shard<K> {
    lists: HashTable<List<K>>,
    /// The number of the next item.
    next: u64,
    /// How many places are taken, and how many operations have their first place here.
    watched: usize,
    delayed: usize,
    is_closed: bool,
}

struct List<K> {
    hash: u64,
    items: Items<K>,
}

/// Most lists have one operation, which stands in the table itself.
#[allow(
    clippy::box_collection,
    reason = "the many slots of lists with one operation are a quarter smaller by it"
)]
enum Items<K> {
    One(u64, Item<K>),
    Many(Box<BTreeMap<u64, Item<K>>>),
}

impl<K> Items<K> {
    /// Copies the items with numbers from `from` until `end`, as many as there is room for. Tells whether there may be more.
    fn copy(&self, from: u64, end: u64, batch: &mut [Option<(u64, Item<K>)>]) -> bool {
        let Self::Many(items) = self else {
            if let Self::One(number, item) = self
                && (from..end).contains(number)
            {
                batch[0] = Some((*number, item.clone()));
            }
            return false;
        };
        let mut copies = items.range(from..end).map(|(&number, item)| (number, item.clone()));
        // The room first, so that no item is copied for which there is none.
        batch.iter_mut().zip(&mut copies).for_each(|(place, copy)| *place = Some(copy));
        items.range(from..end).nth(batch.len()).is_some()
    }
}

impl<K> Shard<K> {
    fn push(&mut self, hash: u64, item: Item<K>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.watched += 1;
        match self.lists.entry(hash, |list| list.hash == hash, |list| list.hash) {
            Entry::Vacant(place) => _ = place.insert(List { hash, items: Items::One(number, item) }),
            Entry::Occupied(mut list) => {
                let items = &mut list.get_mut().items;
                if let Items::One(..) = items
                    && let Items::One(first, one) = mem::replace(items, Items::Many(Box::default()))
                    && let Items::Many(many) = items
                {
                    many.insert(first, one);
                }
                if let Items::Many(many) = items {
                    many.insert(number, item);
                }
            }
        }
        number
    }

    fn remove(&mut self, hash: u64, number: u64) -> Option<Item<K>> {
        let mut list = self.lists.find_entry(hash, |list| list.hash == hash).ok()?;
        let item = match &mut list.get_mut().items {
            Items::Many(many) => {
                let item = many.remove(&number)?;
                if many.is_empty() {
                    list.remove();
                }
                item
            }
            Items::One(..) => match list.remove().0.items {
                Items::One(_, item) => item,
                Items::Many(_) => return None,
            },
        };
        self.watched -= 1;
        let (lists, buckets) = (self.lists.len(), self.lists.num_buckets());
        if buckets > SMALL && lists < buckets / 16 {
            self.lists.shrink_to(2 * lists, |list| list.hash);
        }
        Some(item)
    }
}

impl<K> Lists<K> {
    pub(crate) fn new() -> Self {
        let shard = || Shard { lists: HashTable::new(), next: 0, watched: 0, delayed: 0, is_closed: false };
        Self { shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(), hasher: RandomState::new() }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<K>> {
        // Not by the bits that its table goes by: the lowest and the highest ones.
        let number = (hash >> 32) % SHARDS as u64;
        lock(&self.shards[usize::try_from(number).expect("less than the number of shards")])
    }

    /// The places of an operation that is watched under these keys.
    pub(crate) fn places(&self, keys: impl IntoIterator<Item = K>) -> Places<K>
    where
        K: Eq + Hash,
    {
        Places::new(keys, |key| self.hasher.hash_one(key))
    }

    /// Adds an operation to all its lists, one after the other. Tells whether they take it; if one does not, the operation
    /// stays in those before that.
    pub(crate) fn add<L: Listed<K> + 'static>(&self, operation: &Arc<L>) -> bool {
        for (nth, (place, _)) in operation.places().all().enumerate() {
            let item = operation.clone();
            let mut shard = self.shard(place.hash);
            if shard.is_closed {
                drop(shard);
                return false;
            }
            place.number.store(shard.push(place.hash, item), Ordering::Relaxed);
            shard.delayed += usize::from(nth == 0);
        }
        true
    }

    /// Takes an operation out of all lists that it stands in.
    pub(crate) fn remove(&self, places: &Places<K>) {
        for (nth, (place, _)) in places.all().enumerate() {
            let mut shard = self.shard(place.hash);
            let number = place.number.load(Ordering::Relaxed);
            if number == NOWHERE {
                break;
            }
            let item = shard.remove(place.hash, number);
            shard.delayed -= usize::from(nth == 0);
            drop(shard);
            drop(item);
        }
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first.
    pub(crate) fn each_under<Q: Eq + Hash + ?Sized>(&self, key: &Q, mut f: impl FnMut(Item<K>))
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let find = |shard: &Shard<K>, from, end, batch: &mut [_]| {
            let list = shard.lists.find(hash, |list| list.hash == hash);
            list.is_some_and(|list| list.items.copy(from, end, batch))
        };
        let mut from = 0;
        let mut is_under = |(number, item): (u64, Item<K>)| {
            // Different keys may have the same hash, also those of one operation.
            if item.places().key_at(hash, number).is_some_and(|own| own.borrow() == key) {
                f(item);
            }
            number + 1
        };
        // Most lists have one operation, or none: less is moved about for the first.
        let shard = self.shard(hash);
        let (end, mut first) = (shard.next, [None]);
        let mut has_more = find(&shard, from, end, &mut first);
        drop(shard);
        from = first.into_iter().flatten().map(&mut is_under).last().unwrap_or(from);
        while has_more {
            let mut batch = [const { None }; BATCH];
            has_more = find(&self.shard(hash), from, end, &mut batch);
            from = batch.into_iter().flatten().map(&mut is_under).last().unwrap_or(from);
        }
    }

    /// Takes no more operations, and calls `f` with all that are here, once for each place.
    pub(crate) fn close(&self, mut f: impl FnMut(Item<K>)) {
        for shard in &self.shards {
            lock(shard).is_closed = true;
        }
        self.each(|_, _, item| f(item));
    }

    /// Calls `f` with the key of each place that is taken.
    pub(crate) fn each_key(&self, mut f: impl FnMut(&K)) {
        self.each(|hash, number, item| item.places().key_at(hash, number).into_iter().for_each(&mut f));
    }

    fn each(&self, mut f: impl FnMut(u64, u64, Item<K>)) {
        for shard in &self.shards {
            let mut all = Vec::new();
            for List { hash, items } in &lock(shard).lists {
                match items {
                    Items::One(number, item) => all.push((*hash, *number, item.clone())),
                    Items::Many(many) => {
                        all.extend(many.iter().map(|(&number, item)| (*hash, number, item.clone())));
                    }
                }
            }
            all.into_iter().for_each(|(hash, number, item)| f(hash, number, item));
        }
    }

    /// How many places are taken, and how many operations have one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |shard: &Mutex<Shard<K>>| {
            let shard = lock(shard);
            (shard.watched, shard.delayed)
        };
        self.shards.iter().map(count).fold((0, 0), |sum, shard| (sum.0 + shard.0, sum.1 + shard.1))
    }
}
