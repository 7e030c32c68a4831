//! The list of jobs by keys, in parts with a lock each. No code of a user's runs under a lock: keys are compared outside.

use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use equivalent::Equivalent;
use hashbrown::HashTable;

use crate::info::JobState;
use crate::jobs::Key;
use crate::lock;
use crate::record::{AnyJob, Record};
use crate::task::Work;

/// A job with a key.
pub(crate) trait Keyed<K>: AnyJob {
    fn key(&self) -> &K;
    fn hash(&self) -> u64;
}

/// A job in the table.
pub(crate) type Listed<K> = Arc<dyn Keyed<K>>;

impl<K: Key, W: Work> Keyed<K> for Record<K, W> {
    fn key(&self) -> &K {
        &self.key
    }

    fn hash(&self) -> u64 {
        self.hash
    }
}

/// The jobs were shut down, and take no more.
pub(crate) struct ShutDown;

/// So few that an empty table is small.
const PARTS: usize = 64;

pub(crate) struct Table<K> {
    parts: [Mutex<Part<K>>; PARTS],
    pub(crate) hasher: RandomState,
    pub(crate) panicked: AtomicU64,
}

struct Part<K> {
    /// Several jobs may have the same hash.
    jobs: HashTable<Entry<K>>,
    /// How many were listed so far.
    listed: u64,
    is_shut_down: bool,
}

struct Entry<K> {
    hash: u64,
    job: Listed<K>,
}

/// By which a job is known without its key.
pub(crate) fn address<K>(job: &Listed<K>) -> *const () {
    Arc::as_ptr(job).cast()
}

impl<K> Part<K> {
    fn take(&mut self, hash: u64, job: *const ()) -> Option<Listed<K>> {
        let found = self.jobs.find_entry(hash, |entry| address(&entry.job) == job).ok()?;
        Some(found.remove().0.job)
    }
}

impl<K> Table<K> {
    pub(crate) fn new() -> Self {
        let part = |_| Mutex::new(Part { jobs: HashTable::new(), listed: 0, is_shut_down: false });
        Self { parts: std::array::from_fn(part), hasher: RandomState::new(), panicked: AtomicU64::new(0) }
    }

    /// The part in which a key with this hash is, if it is in any.
    fn part(&self, hash: u64) -> MutexGuard<'_, Part<K>> {
        // Not by the bits that the part itself goes by: its lowest and highest ones.
        let number = (hash >> 32) % PARTS as u64;
        lock(&self.parts[usize::try_from(number).expect("less than the number of parts")])
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).jobs.len()).sum()
    }

    /// From now on no job is listed.
    pub(crate) fn shut_down(&self) {
        for part in &self.parts {
            lock(part).is_shut_down = true;
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        lock(&self.parts[0]).is_shut_down
    }

    pub(crate) fn all(&self) -> Vec<Listed<K>> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(lock(part).jobs.iter().map(|entry| entry.job.clone()));
        }
        all
    }

    pub(crate) fn take_at(&self, hash: u64, job: *const ()) -> Option<Listed<K>> {
        self.part(hash).take(hash, job)
    }

    /// A job is over: it leaves the list, unless it could not run, so that nothing is lost unseen.
    pub(crate) fn over(&self, hash: u64, job: *const (), state: JobState) {
        if state == JobState::Panicked {
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
        if state != JobState::CouldNotRun {
            drop(self.take_at(hash, job));
        }
    }

    pub(crate) fn find(&self, hash: u64, key: &(impl Equivalent<K> + ?Sized)) -> Option<Listed<K>> {
        self.look_up(hash, key).0
    }

    /// Takes the job with this key out.
    pub(crate) fn take(&self, hash: u64, key: &(impl Equivalent<K> + ?Sized)) -> Option<Listed<K>> {
        loop {
            let job = self.find(hash, key)?;
            if self.take_at(hash, address(&job)).is_some() {
                return Some(job);
            }
        }
    }

    /// The job with this key, and how many had been listed in its part by then.
    fn look_up(&self, hash: u64, key: &(impl Equivalent<K> + ?Sized)) -> (Option<Listed<K>>, Option<u64>) {
        let part = self.part(hash);
        let listed = Some(part.listed);
        let Some(first) = part.jobs.find(hash, |entry| entry.hash == hash).map(|entry| entry.job.clone())
        else {
            return (None, listed);
        };
        drop(part);
        if key.equivalent(first.key()) {
            return (Some(first), listed);
        }
        // Hardly ever there are others.
        let part = self.part(hash);
        let listed = Some(part.listed);
        let same: Vec<_> = part
            .jobs
            .iter_hash(hash)
            .filter(|entry| entry.hash == hash)
            .map(|entry| entry.job.clone())
            .collect();
        drop(part);
        (same.into_iter().find(|job| key.equivalent(job.key())), listed)
    }

    /// Lists a job, calls `give` with it, and returns the one that had its key. If the jobs were shut down, it does neither.
    pub(crate) fn list<J: Keyed<K> + 'static>(
        &self,
        job: Arc<J>,
        give: impl FnOnce(&Arc<J>),
    ) -> Result<Option<Listed<K>>, ShutDown>
    where
        K: Eq,
    {
        let (hash, mut same, mut listed) = (job.hash(), None::<Listed<K>>, None);
        loop {
            let mut part = self.part(hash);
            if part.is_shut_down {
                return Err(ShutDown);
            }
            // Another that was listed after the look may have the key.
            let is_free = || part.jobs.find(hash, |entry| entry.hash == hash).is_none();
            if listed == Some(part.listed) || is_free() {
                part.listed += 1;
                give(&job);
                // `same` itself, which may be the last reference, is dropped without the lock.
                let replaced = same.as_ref().and_then(|same| part.take(hash, address(same)));
                part.jobs.insert_unique(hash, Entry { hash, job }, |entry| entry.hash);
                return Ok(replaced);
            }
            drop(part);
            (same, listed) = self.look_up(hash, job.key());
        }
    }
}
