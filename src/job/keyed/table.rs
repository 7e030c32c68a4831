//! Jobs by their keys.
//!
//! In parts, each with a lock of its own, so that threads seldom wait for each other, nor long while a part grows.
//! Under a part's lock keys are hashed and compared, which is a user's code, and a record's lock may be taken; no other
//! code of a user's runs there.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Weak};

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
    pub(super) jobs: HashSet<ByKey<K>>,
    /// No more jobs are added.
    pub(super) is_stopped: bool,
}

/// A job, as its key.
pub(super) struct ByKey<K>(pub(super) Arc<dyn Keyed<K>>);

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
        let mut part = table.part(&self.key);
        // Another may have taken its place.
        let is_listed = part.jobs.get(&self.key).is_some_and(|job| Arc::as_ptr(&job.0).cast() == address);
        let job = if is_listed { part.jobs.take(&self.key) } else { None };
        drop(part);
        drop(job);
    }
}

impl<K: Eq + Hash> Table<K> {
    pub(super) fn new() -> Self {
        let hasher = RandomState::new();
        let part = |_| Part { jobs: HashSet::with_hasher(hasher.clone()), is_stopped: false };
        Self { parts: std::array::from_fn(|number| Mutex::new(part(number))), hasher }
    }

    /// The part in which a key is, if it is in any.
    pub(super) fn part(&self, key: &K) -> MutexGuard<'_, Part<K>> {
        // Not by the bits that the part itself goes by: its lowest and highest ones.
        let hash = (self.hasher.hash_one(key) >> 32) % PARTS as u64;
        lock(&self.parts[usize::try_from(hash).expect("less than the number of parts")])
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, Part<K>>> {
        self.parts.iter().map(lock)
    }
}

impl<K> Borrow<K> for ByKey<K> {
    fn borrow(&self) -> &K {
        self.0.key()
    }
}

impl<K: Hash> Hash for ByKey<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl<K: PartialEq> PartialEq for ByKey<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<K: Eq> Eq for ByKey<K> {}
