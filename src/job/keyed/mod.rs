//! Jobs that are addressed by keys.

mod add;
mod table;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use table::{Job, Table, has_key};

use super::state::{JobInfo, JobState};
use crate::contain::contained;
use crate::timing_wheel::TimingWheel;

/// Jobs that are addressed by keys of the user's: added, replaced, removed, asked for, listed and counted.
///
/// A clone is the same jobs. They run as all [jobs](crate::job) do, on the runtime of their wheel. Dropping the last
/// clone leaves them to run; [`stop`](Self::stop) ends them all, and says which have not run.
///
/// A job that is over leaves the list, with one exception: one that could not run, because the wheel or its runtime has
/// ended or the wheel was full, stays with the state [`JobState::CouldNotRun`], until it is removed or replaced, so
/// that nothing is lost unseen. A run that panics ends its job; [`Stats::jobs_panicked`](crate::Stats::jobs_panicked)
/// counts it.
///
/// # Panics
/// As the `Hash`, `Eq` and `Borrow` of the keys do. The last two must not come back here. If an `Eq` panics as a job is
/// added, nothing has happened but that the job is dropped.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel::job::{FixedRate, JobState, Jobs, Schedule};
///
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// let jobs = Jobs::new(&TimingWheel::new());
/// jobs.run_after("order 7", 30 * MINUTE, async { /* Cancel the unpaid order. */ })?;
/// jobs.run_by("reminder", FixedRate::new(MINUTE).times(3), || async { /* Remind the buyer. */ })?;
///
/// // The buyer asks for more time: the new job replaces the old one.
/// let replaced = jobs.run_after("order 7", 60 * MINUTE, async {})?.unwrap();
/// assert_eq!(replaced.state, JobState::Pending);
/// assert_eq!(jobs.len(), 2);
///
/// tokio::time::sleep(5 * MINUTE).await;
/// assert!(jobs.get(&"reminder").is_none(), "it has run three times");
///
/// // The order is paid.
/// assert_eq!(jobs.remove(&"order 7").unwrap().state, JobState::Pending);
/// assert!(jobs.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Jobs<K> {
    wheel: TimingWheel,
    table: Arc<Table<K>>,
}

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// No jobs as yet, for this wheel.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), table: Arc::new(Table::new()) }
    }

    /// Removes the job with this key, and tells how it found it; `None` if there is none. The key may be given in any
    /// borrowed form, as to a `HashMap`.
    ///
    /// If it was pending it never runs (again), and what it would have run is dropped by this call. If it was running,
    /// that run goes on to its end, and no other follows; the key is free at once, and a job that is added by it does
    /// not wait.
    ///
    /// # Panics
    /// If dropping what the job runs does; the job is removed then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{JobState, Jobs};
    /// use tokio::time::sleep;
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.run_every(7, Duration::from_secs(10), || sleep(Duration::from_secs(5)))?;
    /// sleep(Duration::from_secs(12)).await;
    /// assert_eq!(jobs.remove(&7).unwrap().state, JobState::Running);
    /// assert!(jobs.remove(&7).is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<JobInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        // The part is let go by the end of the statement, before the job is cancelled.
        let hash = self.table.hash(key);
        let job = self.table.part(hash).take(hash, has_key(key))?;
        Some(job.cancel())
    }

    /// What the job with this key does now. The key may be given in any borrowed form, as to a `HashMap`.
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<JobInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.table.hash(key);
        self.table.part(hash).get(hash, has_key(key)).map(|job| job.info())
    }

    /// All keys, in no order, and what their jobs do now.
    ///
    /// Locks one part of the jobs after the other, and looks at each job.
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
    /// Locks one part of the jobs after the other.
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
    /// Locks one part of the jobs after the other, and looks at each job.
    #[must_use]
    pub fn pending(&self) -> usize {
        let is_pending = |job: &&Job<K>| job.info().state == JobState::Pending;
        self.table.parts().map(|part| part.jobs().filter(is_pending).count()).sum()
    }

    /// Gives back the memory that a larger number of jobs has left in the list.
    ///
    /// Locks one part of the jobs after the other.
    pub fn shrink_to_fit(&self) {
        self.table.parts().for_each(|mut part| part.shrink_to_fit());
    }

    /// Removes all jobs, and takes no more. Returns their keys, in no order, and how it found them: what is pending
    /// never runs (again); what is running goes on to the end of its run; what could not run has not run to its end.
    ///
    /// Called again it does nothing and returns nothing.
    ///
    /// # Panics
    /// If cloning a key does; all jobs have been removed then. If dropping what a job runs panics, the panic hook
    /// reports it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::Jobs;
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.run_after("invoice", Duration::from_secs(60), async {})?;
    /// for (key, info) in jobs.stop() {
    ///     println!("{key} was {:?}, due at {:?}", info.state, info.due);
    /// }
    /// let refused = jobs.run_after("invoice", Duration::from_secs(60), async {}).unwrap_err();
    /// assert_eq!(refused.to_string(), "the jobs were stopped, and take no more");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) -> Vec<(K, JobInfo)>
    where
        K: Clone,
    {
        let mut stopped = Vec::new();
        for mut part in self.table.parts() {
            let jobs = part.stop();
            drop(part);
            stopped.extend(jobs.filter_map(|job| {
                let mut found = job.info();
                contained(|| found = job.cancel());
                // One that ended just now is no loss.
                let is_told = !found.state.is_over() || found.state == JobState::CouldNotRun;
                is_told.then_some((job, found))
            }));
        }
        // Last, as that is code of a user's.
        stopped.iter().map(|(job, found)| (job.key().clone(), *found)).collect()
    }
}

impl<K> Clone for Jobs<K> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), table: self.table.clone() }
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> fmt::Debug for Jobs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("len", &self.len()).finish_non_exhaustive()
    }
}
