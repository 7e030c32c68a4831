//! Stopping all jobs, and what did not run.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;

use super::Jobs;
use super::table::Job;
use crate::platform::catch_panic::contained;
use crate::services::job::info::{JobInfo, JobState};

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Removes all jobs, takes no more, and returns the jobs that have not run to their end, in no particular order.
    ///
    /// A job that was pending does not run any more. What it would have run is in the [`StoppedJob`], and is dropped
    /// with that. A run that was going on goes on to its end, and is the last. A job that could not run has no future
    /// any more.
    ///
    /// Called again it does nothing and returns nothing.
    ///
    /// # Panics
    /// Never. If dropping a schedule panics, the panic hook reports it.
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
    /// jobs.try_run_after("invoice", Duration::from_secs(60), async { /* Send it. */ })?;
    /// for job in jobs.stop() {
    ///     println!("{} was {:?}, due in {:?}", job.key(), job.info().state, job.info().time_left());
    ///     // Send it now.
    ///     if let Some(future) = job.into_future() {
    ///         future.await;
    ///     }
    /// }
    /// let refused = jobs.try_run_after("invoice", Duration::from_secs(60), async {}).unwrap_err();
    /// assert_eq!(refused.to_string(), "the jobs were stopped, and take no more");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) -> Vec<StoppedJob<K>> {
        let mut stopped = Vec::new();
        for mut part in self.table.parts() {
            let jobs = part.stop();
            drop(part);
            stopped.extend(jobs.filter_map(|job| {
                let mut info = job.info();
                contained(|| info = job.cancel_and_hold().info);
                // One that ended just now is no loss.
                let is_told = !info.state.is_over() || info.state == JobState::CouldNotRun;
                is_told.then_some(StoppedJob { job, info })
            }));
        }
        stopped
    }
}

/// A job that had not run to its end when it was stopped, from [`Jobs::stop`].
///
/// # Panics
/// Never as it is dropped. If dropping what the job would have run panics, the panic hook reports it.
pub struct StoppedJob<K> {
    job: Job<K>,
    info: JobInfo,
}

impl<K> StoppedJob<K> {
    /// The job's key.
    #[must_use]
    pub fn key(&self) -> &K {
        self.job.key()
    }

    /// How [`Jobs::stop`] found the job.
    #[must_use]
    pub const fn info(&self) -> JobInfo {
        self.info
    }

    /// What the job would have run next, if it was [pending](JobState::Pending): the future of a job that runs once, or
    /// one run of a job that repeats. It has not been polled.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "there may be none")]
    pub fn into_future(self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.job.take_held()
    }
}

impl<K> Drop for StoppedJob<K> {
    fn drop(&mut self) {
        self.job.drop_held();
    }
}

impl<K: fmt::Debug> fmt::Debug for StoppedJob<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoppedJob")
            .field("key", self.key())
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
