//! The list of jobs by keys, in parts with a lock each, and the runs that go on or wait for a place.

use std::collections::{BTreeMap, HashMap};
use std::hash::RandomState;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use equivalent::Equivalent;
use hashbrown::HashTable;

use crate::error::JobError;
use crate::info::JobState;
use crate::record::AnyJob;
use crate::{caught, discard, lock};

/// A job with a key.
pub(crate) trait Keyed<K>: AnyJob {
    fn key(&self) -> &K;

    /// The key's.
    fn hash(&self) -> u64;

    /// Spawns the task of a job that waited for a place, and now has it. Returns `false` if the job was over.
    fn run_in_place(self: Arc<Self>) -> bool;
}

/// A job in the table.
pub(crate) type Listed<K> = Arc<dyn Keyed<K>>;

/// So few that an empty table is small.
const PARTS: usize = 64;

/// Locks are taken in this order: of a part, of a record, of the runs.
pub(crate) struct Table<K> {
    parts: [Mutex<Part<K>>; PARTS],
    runs: Mutex<Runs<K>>,
    pub(crate) hasher: RandomState,
    pub(crate) panicked: AtomicU64,
}

struct Part<K> {
    /// With the hashes of the keys.
    jobs: HashTable<(u64, Listed<K>)>,
    is_shut_down: bool,
}

struct Runs<K> {
    /// How many may run at once.
    most: usize,
    /// By their addresses. A job whose key was removed is there too.
    running: HashMap<usize, Listed<K>>,
    /// Jobs that wait for a place, by tickets that count up.
    queue: BTreeMap<u64, Listed<K>>,
    last_ticket: u64,
    /// Whether a thread is filling places.
    is_filling: bool,
    is_shut_down: bool,
}

/// By which a job is known without its key.
pub(crate) fn address<K>(job: &Listed<K>) -> usize {
    Arc::as_ptr(job).addr()
}

impl<K> Part<K> {
    fn take(&mut self, hash: u64, is_meant: impl FnMut(&(u64, Listed<K>)) -> bool) -> Option<Listed<K>> {
        Some(self.jobs.find_entry(hash, is_meant).ok()?.remove().0.1)
    }
}

/// The list.
impl<K> Table<K> {
    pub(crate) fn new() -> Self {
        let part = |_| Mutex::new(Part { jobs: HashTable::new(), is_shut_down: false });
        let runs = Runs {
            most: usize::MAX,
            running: HashMap::new(),
            queue: BTreeMap::new(),
            last_ticket: 0,
            is_filling: false,
            is_shut_down: false,
        };
        Self {
            parts: std::array::from_fn(part),
            runs: Mutex::new(runs),
            hasher: RandomState::new(),
            panicked: AtomicU64::new(0),
        }
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

    /// From now on no job is listed, and none begins.
    pub(crate) fn shut_down(&self) {
        for part in &self.parts {
            lock(part).is_shut_down = true;
        }
        lock(&self.runs).is_shut_down = true;
    }

    pub(crate) fn all(&self) -> Vec<Listed<K>> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(lock(part).jobs.iter().map(|(_, job)| job.clone()));
        }
        all
    }

    pub(crate) fn find(&self, hash: u64, key: &(impl Equivalent<K> + ?Sized)) -> Option<Listed<K>> {
        let part = self.part(hash);
        let is_meant = |entry: &(u64, Listed<K>)| entry.0 == hash && key.equivalent(entry.1.key());
        part.jobs.find(hash, is_meant).map(|(_, job)| job.clone())
    }

    /// Takes the job with this key out.
    pub(crate) fn take(&self, hash: u64, key: &(impl Equivalent<K> + ?Sized)) -> Option<Listed<K>> {
        self.part(hash).take(hash, |entry| entry.0 == hash && key.equivalent(entry.1.key()))
    }

    pub(crate) fn take_at(&self, hash: u64, job: usize) -> Option<Listed<K>> {
        self.part(hash).take(hash, |entry| address(&entry.1) == job)
    }

    /// A job is over: it leaves the list, unless it could not run, so that nothing is lost unseen.
    pub(crate) fn over(&self, hash: u64, job: usize, state: JobState) {
        if state == JobState::Panicked {
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
        if state != JobState::CouldNotRun {
            discard(self.take_at(hash, job));
        }
    }

    /// Lists a job, if it has a run, and returns the one that had its key.
    pub(crate) fn replace(&self, job: Listed<K>, has_run: bool) -> Result<Option<Listed<K>>, JobError>
    where
        K: Eq,
    {
        let hash = job.hash();
        let mut part = self.part(hash);
        if part.is_shut_down {
            return Err(JobError::jobs_shut_down());
        }
        let is_meant = |entry: &(u64, Listed<K>)| entry.0 == hash && entry.1.key() == job.key();
        if !has_run {
            return Ok(part.take(hash, is_meant));
        }
        let replaced = match part.jobs.find_mut(hash, is_meant) {
            Some((_, before)) => Some(mem::replace(before, job)),
            None => {
                part.jobs.insert_unique(hash, (hash, job), |entry| entry.0);
                None
            }
        };
        Ok(replaced)
    }
}

/// The runs.
impl<K> Table<K> {
    pub(crate) fn limit(&self, most: usize) {
        lock(&self.runs).most = most;
    }

    /// How many run, and how many wait for a place.
    pub(crate) fn running_and_queued(&self) -> (usize, usize) {
        let runs = lock(&self.runs);
        (runs.running.len(), runs.queue.len())
    }

    /// All jobs that run, also those whose keys were removed.
    pub(crate) fn running(&self) -> Vec<Listed<K>> {
        lock(&self.runs).running.values().cloned().collect()
    }

    /// A job that is due has a place, or else a ticket for one. After a shutdown there are no more places.
    pub(crate) fn enter(&self, job: Listed<K>) -> Option<u64> {
        let mut runs = lock(&self.runs);
        if runs.running.len() < runs.most && runs.queue.is_empty() && !runs.is_shut_down {
            runs.running.insert(address(&job), job);
            return None;
        }
        runs.last_ticket += 1;
        let ticket = runs.last_ticket;
        runs.queue.insert(ticket, job);
        Some(ticket)
    }

    /// A job is over that waited for a place.
    pub(crate) fn leave_queue(&self, ticket: u64) {
        let left = lock(&self.runs).queue.remove(&ticket);
        discard(left);
    }

    /// A run has ended: the first job that waits gets its place. Call it under no lock.
    pub(crate) fn leave(&self, job: usize) {
        let left = lock(&self.runs).running.remove(&job);
        discard(left);
        self.fill();
    }

    /// Gives places that are free to the first jobs that wait. Call it under no lock.
    ///
    /// One thread at a time fills places. Where the runtime has ended, a task that is spawned is dropped at once, and leaves
    /// its place within this call. So this is a loop, and the stack does not grow with the queue.
    pub(crate) fn fill(&self) {
        loop {
            let mut runs = lock(&self.runs);
            if runs.is_filling || runs.running.len() >= runs.most || runs.is_shut_down {
                return;
            }
            let Some((_, next)) = runs.queue.pop_first() else { return };
            let address = address(&next);
            runs.running.insert(address, next.clone());
            runs.is_filling = true;
            drop(runs);
            // Code or a key that panics as it is dropped keeps no place.
            let has_begun = caught(|| next.run_in_place()).unwrap_or(false);
            let mut runs = lock(&self.runs);
            runs.is_filling = false;
            let left = if has_begun { None } else { runs.running.remove(&address) };
            drop(runs);
            discard(left);
        }
    }
}
