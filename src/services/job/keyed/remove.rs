//! Removing jobs, one or all, and the memory that they leave.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::Jobs;
use super::table::has_key;
use crate::platform::contain::contained;
use crate::services::job::state::{JobInfo, JobState};

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
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
        let hash = self.hasher.hash_one(key);
        let job = self.table.part(hash).take(hash, has_key(key))?;
        Some(job.cancel())
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
