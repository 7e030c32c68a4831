//! Jobs by their keys.
//!
//! In parts, each with a lock of its own, so that threads seldom wait for each other, nor long while a part grows.
//! Under a part's lock keys are compared, and borrowed for that, which is a user's code, and a record's lock may be
//! taken; no other code of a user's runs there. Each key is hashed once for each call, before: that chooses the part,
//! and the place in it.

use std::borrow::Borrow;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::Waker;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::platform::sync::{ShortLock, ShortLockGuard};
use crate::services::job::handle::Found;
use crate::services::job::info::{JobInfo, JobState};
use crate::services::job::joining::{Joined, Joining};
use crate::services::job::record::{Owner, Record};
use crate::services::job::schedule::Schedule;
use crate::services::job::when::When;
use crate::services::job::work::{Unrun, Work};

/// So few that an empty table is small.
const PARTS: usize = 64;

pub(super) struct Table<K> {
    parts: [ShortLock<Part<K>>; PARTS],
}

pub(super) struct Part<K> {
    jobs: HashTable<Listed<K>>,
    /// No more jobs are added.
    pub(super) is_stopped: bool,
}

pub(super) type Job<K> = Arc<dyn Keyed<K>>;

/// A job, and the hash of its key, so that no key is hashed again as a part grows.
struct Listed<K> {
    hash: u64,
    job: Job<K>,
}

/// A record that its owner finds by its key.
pub(super) trait Keyed<K>: Send + Sync {
    fn key(&self) -> &K;
    fn info(&self) -> JobInfo;
    fn reset(self: Arc<Self>, when: When) -> bool;
    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool;
    fn cancel(&self) -> Found;
    fn cancel_and_hold(&self) -> Found;
    fn abort(&self) -> Found;
    fn take_held(&self) -> Option<Unrun<()>>;
    fn drop_held(&self);
    fn hand_over_permit(&self) -> Option<Option<Waker>>;
    fn end_without_successor(&self);
    /// To wait for the job's end, or the state in which it has ended.
    fn join(&self) -> Result<Joined, JobState>;
}

impl<W: Work, K: Eq + Hash + Send + Sync + 'static> Keyed<K> for Record<W, Listing<K>> {
    fn key(&self) -> &K {
        &self.owner().key
    }

    fn info(&self) -> JobInfo {
        Self::info(self)
    }

    fn reset(self: Arc<Self>, when: When) -> bool {
        Self::reset(&self, when)
    }

    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        Self::set_schedule(&self, schedule)
    }

    fn cancel(&self) -> Found {
        Self::cancel(self)
    }

    fn cancel_and_hold(&self) -> Found {
        Self::cancel_and_hold(self)
    }

    fn abort(&self) -> Found {
        Self::abort(self)
    }

    fn take_held(&self) -> Option<Unrun<()>> {
        let unrun = Self::take_held(self)?;
        Some(Box::pin(async {
            unrun.await;
        }))
    }

    fn drop_held(&self) {
        Self::drop_held(self);
    }

    fn hand_over_permit(&self) -> Option<Option<Waker>> {
        Self::hand_over_permit(self)
    }

    fn end_without_successor(&self) {
        Self::end_without_successor(self);
    }

    fn join(&self) -> Result<Joined, JobState> {
        Self::join(self)
    }
}

/// Where a job is listed.
pub(super) struct Listing<K> {
    pub(super) key: K,
    /// That of the key, so that a job which is over leaves the list without code of a user's.
    pub(super) hash: u64,
    /// Weak, as what could not run stays listed: nothing of it is left when nobody has the table any more.
    pub(super) table: Weak<Table<K>>,
}

impl<K: Eq + Hash + Send + Sync + 'static> Owner for Listing<K> {
    type Waiter = Joining;

    fn over(&self, address: *const ()) {
        let Some(table) = self.table.upgrade() else { return };
        // Not another that has taken its place.
        let job = table.part(self.hash).take(self.hash, |job| Arc::as_ptr(job).cast() == address);
        drop(job);
    }
}

impl<K: Eq + Hash> Table<K> {
    pub(super) fn new() -> Self {
        let part = |_| ShortLock::new(Part { jobs: HashTable::new(), is_stopped: false });
        Self { parts: std::array::from_fn(part) }
    }

    /// The part in which a key with this hash is, if it is in any.
    pub(super) fn part(&self, hash: u64) -> ShortLockGuard<'_, Part<K>> {
        // Not by the bits that the part itself goes by: its lowest and highest ones.
        let number = (hash >> 32) % PARTS as u64;
        self.parts[usize::try_from(number).expect("less than the number of parts")].lock()
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = ShortLockGuard<'_, Part<K>>> {
        self.parts.iter().map(ShortLock::lock)
    }
}

impl<K> Part<K> {
    pub(super) fn jobs(&self) -> impl ExactSizeIterator<Item = &Job<K>> {
        self.jobs.iter().map(|listed| &listed.job)
    }

    /// The job of which `is_meant` says that it is the one.
    pub(super) fn get(&self, hash: u64, is_meant: impl Fn(&Job<K>) -> bool) -> Option<&Job<K>> {
        let listed = self.jobs.find(hash, |listed| listed.hash == hash && is_meant(&listed.job))?;
        Some(&listed.job)
    }

    pub(super) fn take(&mut self, hash: u64, is_meant: impl Fn(&Job<K>) -> bool) -> Option<Job<K>> {
        let is_meant = |listed: &Listed<K>| listed.hash == hash && is_meant(&listed.job);
        Some(self.jobs.find_entry(hash, is_meant).ok()?.remove().0.job)
    }

    /// Where the job is listed, or is to be, of which `is_meant` says that it is the one.
    pub(super) fn entry(&mut self, hash: u64, is_meant: impl Fn(&Job<K>) -> bool) -> KeyEntry<'_, K> {
        let is_meant = |listed: &Listed<K>| listed.hash == hash && is_meant(&listed.job);
        KeyEntry { hash, entry: self.jobs.entry(hash, is_meant, |listed| listed.hash) }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.jobs.shrink_to_fit(|listed| listed.hash);
    }

    /// Takes all jobs out, and no more in.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = Job<K>> + use<K> {
        self.is_stopped = true;
        mem::take(&mut self.jobs).into_iter().map(|listed| listed.job)
    }
}

/// Where a job is listed, or is to be.
pub(super) struct KeyEntry<'a, K> {
    hash: u64,
    entry: Entry<'a, Listed<K>>,
}

impl<K> KeyEntry<'_, K> {
    /// The job that is listed here.
    pub(super) fn job(&self) -> Option<&Job<K>> {
        match &self.entry {
            Entry::Occupied(listed) => Some(&listed.get().job),
            Entry::Vacant(_) => None,
        }
    }

    /// Lists a job here, and returns the one before.
    pub(super) fn list(self, job: Job<K>) -> Option<Job<K>> {
        match self.entry {
            Entry::Occupied(mut before) => Some(mem::replace(&mut before.get_mut().job, job)),
            Entry::Vacant(vacant) => {
                vacant.insert(Listed { hash: self.hash, job });
                None
            }
        }
    }
}

/// Tells jobs with this key from others.
pub(super) fn has_key<K: Borrow<Q>, Q: Eq + ?Sized>(key: &Q) -> impl Fn(&Job<K>) -> bool {
    move |job| key == job.key().borrow()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_spread_over_all_parts_and_within_a_part_by_other_bits() {
        let table: Table<()> = Table::new();
        let parts = |hash_of: fn(u64) -> u64| -> HashSet<*const Part<()>> {
            (0..PARTS as u64).map(|n| std::ptr::from_ref(&*table.part(hash_of(n)))).collect()
        };
        assert_eq!(parts(|n| n << 32).len(), PARTS);
        // By these a part finds a key's place.
        assert_eq!((parts(|n| n).len(), parts(|n| n << 57).len()), (1, 1));
    }
}
