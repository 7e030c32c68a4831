//! Looking jobs up, listing and counting them.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::Jobs;
use super::table::{Job, has_key};
use crate::services::job::info::{JobInfo, JobState};

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Where the job with this key stands now; `None` if there is none. The key may be given in any borrowed form, as to
    /// a `HashMap`.
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<JobInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        self.table.part(hash).get(hash, has_key(key)).map(|job| job.info())
    }

    /// All keys, in no particular order, and where their jobs stand now.
    ///
    /// Locks the parts of the list one after the other, and looks at each job.
    #[must_use]
    pub fn list(&self) -> Vec<(K, JobInfo)>
    where
        K: Clone,
    {
        // Keys are cloned by code of a user's, so not under a lock.
        let mut jobs = Vec::new();
        for part in self.table.parts() {
            jobs.extend(part.jobs().cloned());
        }
        jobs.iter().map(|job| (job.key().clone(), job.info())).collect()
    }

    /// How many keys there are.
    ///
    /// Locks the parts of the list one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.parts().map(|part| part.jobs().len()).sum()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.parts().all(|part| part.jobs().len() == 0)
    }

    /// How many of the jobs wait for their time.
    ///
    /// Locks the parts of the list one after the other, and looks at each job.
    #[must_use]
    pub fn pending(&self) -> usize {
        let is_pending = |job: &&Job<K>| job.info().state == JobState::Pending;
        self.table.parts().map(|part| part.jobs().filter(is_pending).count()).sum()
    }
}
