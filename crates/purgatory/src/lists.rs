//! Which operations are watched under which key.
//!
//! Keys are spread over shards by their hashes, each with a lock of its own. No user's code runs under it: keys are hashed
//! before and compared after, and operations are dropped after too. So a condition may call any method of its purgatory.
//!
//! Operations under one hash stand in the order in which they came, by numbers that a shard gives out once. So a walk,
//! which lets go of the lock after each few, only has to know the number that it has come to, and the one that was next as
//! it began. An operation that ends leaves all lists at once.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{iter, mem};

use crate::contained;

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
    fn cancel(&self) -> bool;
}

pub(crate) type Item<K> = Arc<dyn Listed<K>>;

/// An item with its number in a list.
type Numbered<K> = (u64, Item<K>);

/// Where an operation stands in one list.
struct Place<K> {
    hash: u64,
    /// Its number there, or `NOWHERE` until it is added. Written under the lock of the shard; it guards no other memory.
    number: AtomicU64,
    /// An operation without a key has to stand somewhere too, to be counted and shut down.
    key: Option<K>,
}

const NOWHERE: u64 = u64::MAX;

impl<K> Place<K> {
    const fn new(hash: u64, key: Option<K>) -> Self {
        Self { hash, number: AtomicU64::new(NOWHERE), key }
    }
}

/// The keys of an operation, each once, and its place under each.
pub(crate) struct Places<K> {
    first: Place<K>,
    /// Apart, because most have one key.
    more: Box<[Place<K>]>,
}

impl<K> Places<K> {
    fn all(&self) -> impl Iterator<Item = &Place<K>> {
        iter::once(&self.first).chain(&*self.more)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.all().filter_map(|place| place.key.as_ref())
    }

    /// The key under whose hash the operation stands with this number.
    fn key_at(&self, hash: u64, number: u64) -> Option<&K> {
        let is_at = |place: &&Place<K>| place.hash == hash && place.number.load(Ordering::Relaxed) == number;
        self.all().find(is_at)?.key.as_ref()
    }
}

/// The lists of a purgatory.
pub(crate) struct Lists<K> {
    shards: Box<[Mutex<Shard<K>>]>,
    hasher: RandomState,
}

struct Shard<K> {
    /// By the hashes of keys.
    lists: HashMap<u64, List<K>, BuildHasherDefault<Hashed>>,
    /// The number of the next item.
    next: u64,
    /// How many places are taken, and how many operations have their first place here.
    watched: usize,
    delayed: usize,
    is_closed: bool,
}

/// The hash of a hash is the hash.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are numbers");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Most lists have one operation, which stands in the table itself.
enum List<K> {
    One(u64, Item<K>),
    #[expect(clippy::box_collection, reason = "so the table has 24 bytes for a list, and not 32")]
    Many(Box<BTreeMap<u64, Item<K>>>),
}

impl<K> List<K> {
    /// Copies the items with numbers from `from` until `end`; of several at most a batch.
    fn copy(&self, from: u64, end: u64) -> (Option<Numbered<K>>, Vec<Numbered<K>>) {
        let copy = |(&number, item): (&u64, &Item<K>)| (number, item.clone());
        match self {
            Self::One(number, item) => {
                ((from..end).contains(number).then(|| copy((number, item))), Vec::new())
            }
            Self::Many(items) => (None, items.range(from..end).take(BATCH).map(copy).collect()),
        }
    }
}

impl<K> Shard<K> {
    fn push(&mut self, hash: u64, item: Item<K>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.watched += 1;
        match self.lists.entry(hash) {
            Entry::Vacant(place) => _ = place.insert(List::One(number, item)),
            Entry::Occupied(mut list) => match list.get_mut() {
                List::Many(many) => _ = many.insert(number, item),
                List::One(first, one) => {
                    let two = [(*first, one.clone()), (number, item)];
                    list.insert(List::Many(Box::new(BTreeMap::from(two))));
                }
            },
        }
        number
    }

    fn remove(&mut self, hash: u64, number: u64) -> Option<Item<K>> {
        let Entry::Occupied(mut list) = self.lists.entry(hash) else { return None };
        self.watched -= 1;
        if let List::Many(many) = list.get_mut()
            && many.len() > 1
        {
            return many.remove(&number);
        }
        let item = match list.remove() {
            List::One(_, item) => Some(item),
            List::Many(mut many) => many.remove(&number),
        };
        let (lists, room) = (self.lists.len(), self.lists.capacity());
        if room > SMALL && lists < room / 16 {
            self.lists.shrink_to(2 * lists);
        }
        item
    }
}

impl<K> Lists<K> {
    pub(crate) fn new() -> Self {
        let shard = || {
            let lists = HashMap::default();
            Mutex::new(Shard { lists, next: 0, watched: 0, delayed: 0, is_closed: false })
        };
        Self { shards: iter::repeat_with(shard).take(SHARDS).collect(), hasher: RandomState::new() }
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
        let mut places = keys.into_iter().map(|key| Place::new(self.hasher.hash_one(&key), Some(key)));
        let first = places.next().unwrap_or(Place::new(0, None));
        let Some(second) = places.next() else { return Places { first, more: Box::default() } };
        let mut others: Vec<_> = iter::once(second).chain(places).collect();
        // Those with the same hash stand together then.
        others.sort_by_key(|place| place.hash);
        let mut more = Vec::<Place<K>>::with_capacity(others.len());
        for place in others {
            let alike = more.iter().rev().take_while(|other| other.hash == place.hash);
            if !alike.chain([&first]).any(|other| other.hash == place.hash && other.key == place.key) {
                more.push(place);
            }
        }
        Places { first, more: more.into() }
    }

    /// Adds an operation to all its lists, one after the other. Tells whether they take it; if one does not, the operation
    /// stays in those before that.
    pub(crate) fn add<L: Listed<K> + 'static>(&self, operation: &Arc<L>) -> bool {
        let mut is_first = 1;
        for place in operation.places().all() {
            let item = operation.clone();
            let mut shard = self.shard(place.hash);
            if shard.is_closed {
                drop(shard);
                return false;
            }
            place.number.store(shard.push(place.hash, item), Ordering::Relaxed);
            shard.delayed += mem::take(&mut is_first);
        }
        true
    }

    /// Takes an operation out of all lists that it stands in.
    pub(crate) fn remove(&self, places: &Places<K>) {
        let mut is_first = 1;
        for place in places.all() {
            let mut shard = self.shard(place.hash);
            let number = place.number.load(Ordering::Relaxed);
            if number == NOWHERE {
                break;
            }
            let item = shard.remove(place.hash, number);
            shard.delayed -= mem::take(&mut is_first);
            drop(shard);
            drop(item);
        }
    }

    /// Calls `f` with each operation that is watched under `key` as this begins, the first to be added first.
    pub(crate) fn each_under<Q: Eq + Hash + ?Sized>(&self, key: &Q, mut f: impl FnMut(&Item<K>))
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let (mut from, mut end) = (0, None);
        loop {
            let shard = self.shard(hash);
            let end = *end.get_or_insert(shard.next);
            let Some((one, many)) = shard.lists.get(&hash).map(|list| list.copy(from, end)) else { return };
            drop(shard);
            let has_more = many.len() == BATCH;
            for (number, item) in one.into_iter().chain(many) {
                from = number + 1;
                // Different keys may have the same hash, also those of one operation.
                if item.places().key_at(hash, number).is_some_and(|own| own.borrow() == key) {
                    f(&item);
                }
                contained(move || drop(item));
            }
            if !has_more {
                return;
            }
        }
    }

    /// Takes no more operations, and calls `f` with all that are here, once for each place.
    pub(crate) fn close(&self, mut f: impl FnMut(&Item<K>)) {
        for shard in &self.shards {
            lock(shard).is_closed = true;
        }
        self.each(|_, _, item| f(item));
    }

    /// Calls `f` with the key of each place that is taken.
    pub(crate) fn each_key(&self, mut f: impl FnMut(&K)) {
        self.each(|hash, number, item| item.places().key_at(hash, number).into_iter().for_each(&mut f));
    }

    fn each(&self, mut f: impl FnMut(u64, u64, &Item<K>)) {
        for shard in &self.shards {
            let mut all = Vec::new();
            for (&hash, list) in &lock(shard).lists {
                match list {
                    List::One(number, item) => all.push((hash, *number, item.clone())),
                    List::Many(many) => all.extend(many.iter().map(|(&n, item)| (hash, n, item.clone()))),
                }
            }
            for (hash, number, item) in all {
                f(hash, number, &item);
                contained(move || drop(item));
            }
        }
    }

    /// How many places are taken, and how many operations have one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(watched, delayed), shard| {
            let shard = lock(shard);
            (watched + shard.watched, delayed + shard.delayed)
        })
    }
}

/// No code that may panic runs under a lock of ours.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
