//! Removing jobs, and the memory that they leave.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::Jobs;
use super::table::has_key;
use crate::services::job::info::JobInfo;

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Removes the job with this key, and returns the state in which the job was; `None` if there is none. The key may
    /// be given in any borrowed form, as to a `HashMap`.
    ///
    /// A job that was pending does not run any more, and this call drops what it would have run. A run that was going on
    /// goes on to its end, and is the last. The key is free at once: a new job under it does not wait for that run.
    ///
    /// # Panics
    /// If dropping what the job runs panics; the job is removed then.
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
    /// jobs.try_run_every(7, Duration::from_secs(10), || sleep(Duration::from_secs(5)))?;
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
        Some(job.cancel().info)
    }

    /// Removes the job with this key as [`remove`](Self::remove) does, and ends a run that is going on, where it waits
    /// next: see [`Job::abort`](crate::job::Job::abort).
    ///
    /// # Panics
    /// As [`remove`](Self::remove).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{JobState, Jobs};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("stuck", Duration::ZERO, std::future::pending())?;
    /// let end = jobs.join("stuck").unwrap();
    /// assert_eq!(jobs.abort("stuck").unwrap().state, JobState::Running);
    /// assert_eq!(end.await, JobState::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort<Q>(&self, key: &Q) -> Option<JobInfo>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let job = self.table.part(hash).take(hash, has_key(key))?;
        Some(job.abort().info)
    }

    /// Gives back the memory that a larger number of jobs has left in the list.
    ///
    /// Locks the parts of the list one after the other.
    pub fn shrink_to_fit(&self) {
        self.table.parts().for_each(|mut part| part.shrink_to_fit());
    }
}
