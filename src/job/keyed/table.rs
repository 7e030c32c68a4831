//! Jobs by their keys.
//!
//! In parts, each with a lock of its own, so that threads seldom wait for each other, nor long while a part grows.
//! Under a part's lock keys are hashed and compared, which is a user's code, and a record's lock may be taken; no other
//! code of a user's runs there. Each key is hashed once for each call: that chooses the part, and the place in it.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem;
use std::sync::{Arc, Weak};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::job::handle::Handled;
use crate::job::record::{Owner, Record};
use crate::job::state::JobInfo;
use crate::job::work::Work;
use crate::sync::{Mutex, MutexGuard, lock};

/// So few that an empty table is small.
const PARTS: usize = 64;

pub(super) struct Table<K> {
    parts: [Mutex<Part<K>>; PARTS],
    hasher: RandomState,
}

pub(super) struct Part<K> {
    jobs: HashTable<Listed<K>>,
    /// No more jobs are added.
    pub(super) is_stopped: bool,
}

/// A job, and the hash of its key, so that no key is hashed again as a part grows.
struct Listed<K> {
    hash: u64,
    job: Arc<dyn Keyed<K>>,
}

/// A key that was hashed, or what is borrowed of one.
pub(super) struct Sought<'a, Q: ?Sized> {
    hash: u64,
    key: &'a Q,
}

/// A record that its owner finds by its key.
pub(super) trait Keyed<K>: Send + Sync {
    fn key(&self) -> &K;
    fn info(&self) -> JobInfo;
    fn cancel(&self) -> JobInfo;
}

impl<W: Work, K: Eq + Hash + Send + Sync + 'static> Keyed<K> for Record<W, Listing<K>> {
    fn key(&self) -> &K {
        &self.owner().key
    }

    fn info(&self) -> JobInfo {
        Handled::info(self)
    }

    fn cancel(&self) -> JobInfo {
        Handled::cancel(self)
    }
}

/// Where a job is listed.
pub(super) struct Listing<K> {
    pub(super) key: K,
    /// Weak, as what could not run stays listed: nothing of it is left when nobody has the table any more.
    pub(super) table: Weak<Table<K>>,
}

impl<K: Eq + Hash + Send + Sync + 'static> Owner for Listing<K> {
    fn over(&self, address: *const ()) {
        let Some(table) = self.table.upgrade() else { return };
        let sought = table.sought(&self.key);
        // Not another that has taken its place.
        let job = table.part(&sought).take_if(&sought, |job| Arc::as_ptr(job).cast() == address);
        drop(job);
    }
}

impl<K: Eq + Hash> Table<K> {
    pub(super) fn new() -> Self {
        let part = |_| Mutex::new(Part { jobs: HashTable::new(), is_stopped: false });
        Self { parts: std::array::from_fn(part), hasher: RandomState::new() }
    }

    pub(super) fn sought<'a, Q: Hash + ?Sized>(&self, key: &'a Q) -> Sought<'a, Q> {
        Sought { hash: self.hasher.hash_one(key), key }
    }

    /// The part in which a key is, if it is in any.
    pub(super) fn part<Q: ?Sized>(&self, sought: &Sought<'_, Q>) -> MutexGuard<'_, Part<K>> {
        // Not by the bits that the part itself goes by: its lowest and highest ones.
        let number = (sought.hash >> 32) % PARTS as u64;
        lock(&self.parts[usize::try_from(number).expect("less than the number of parts")])
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, Part<K>>> {
        self.parts.iter().map(lock)
    }
}

impl<K: Eq> Part<K> {
    pub(super) fn jobs(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Keyed<K>>> {
        self.jobs.iter().map(|listed| &listed.job)
    }

    pub(super) fn get<Q>(&self, sought: &Sought<'_, Q>) -> Option<&Arc<dyn Keyed<K>>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.jobs.find(sought.hash, |listed| sought.is_key_of(listed)).map(|listed| &listed.job)
    }

    pub(super) fn take_if<Q>(
        &mut self,
        sought: &Sought<'_, Q>,
        is_meant: impl FnOnce(&Arc<dyn Keyed<K>>) -> bool,
    ) -> Option<Arc<dyn Keyed<K>>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let found = self.jobs.find_entry(sought.hash, |listed| sought.is_key_of(listed)).ok()?;
        is_meant(&found.get().job).then(|| found.remove().0.job)
    }

    /// Lists a job, and returns the one before with the same key.
    pub(super) fn replace(
        &mut self,
        sought: &Sought<'_, K>,
        job: Arc<dyn Keyed<K>>,
    ) -> Option<Arc<dyn Keyed<K>>> {
        let is_key_of = |listed: &Listed<K>| sought.is_key_of(listed);
        match self.jobs.entry(sought.hash, is_key_of, |listed| listed.hash) {
            Entry::Occupied(mut before) => Some(mem::replace(&mut before.get_mut().job, job)),
            Entry::Vacant(place) => {
                place.insert(Listed { hash: sought.hash, job });
                None
            }
        }
    }

    /// Takes all jobs out, and no more in.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = Arc<dyn Keyed<K>>> + use<K> {
        self.is_stopped = true;
        mem::take(&mut self.jobs).into_iter().map(|listed| listed.job)
    }
}

impl<Q: Eq + ?Sized> Sought<'_, Q> {
    fn is_key_of<K: Borrow<Q>>(&self, listed: &Listed<K>) -> bool {
        self.hash == listed.hash && self.key == listed.job.key().borrow()
    }
}
