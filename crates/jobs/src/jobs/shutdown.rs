//! How jobs under keys end together.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use futures::future::join_all;

use super::Jobs;
use crate::info::{JobInfo, JobState};
use crate::table::{Listed, address};
use crate::task::Unrun;

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// Ends all jobs: nothing new begins, and what runs is waited for, for at most `limit`, and then aborted. Returns the
    /// keys of the runs that have come to their end and of those that were aborted, and the jobs that have not begun, with
    /// their futures. `Durable::stop` of `timingwheel-durable` is the same for durable timers.
    ///
    /// From the first poll on, new jobs are refused and pending jobs do not run. A run that is going on is the last of
    /// its job, and is waited for also if its job was removed or replaced. A job that could not run counts among those that
    /// have not begun; it has no future any more. An aborted run ends where it waits next, and `shutdown` does not wait for
    /// that. A second call, even from another task, waits for the runs that are still going on, and counts those that the
    /// first has aborted as aborted. A pending job that another thread removes or replaces at that moment is
    /// handed back here or dropped there, never both.
    ///
    /// The wheel goes on. It keeps the limit. If it has ended or is full, tokio's timer does.
    ///
    /// # Cancel safety
    /// If the future is dropped, what runs goes on to its end, and the jobs that had not begun are dropped.
    ///
    /// # Panics
    /// If the wheel has ended or is full, something runs, and the caller is not in a tokio runtime with timers. If the
    /// `Clone` of a key panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::Jobs;
    /// use tokio::time::sleep;
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("now", Duration::ZERO, sleep(Duration::from_secs(2)))?;
    /// jobs.try_run_after("stuck", Duration::ZERO, std::future::pending())?;
    /// jobs.try_run_after("invoice", Duration::from_secs(60), async { /* Send it. */ })?;
    /// sleep(Duration::from_secs(1)).await;
    ///
    /// let ended = jobs.shutdown(Duration::from_secs(5)).await;
    /// assert_eq!((ended.finished_keys, ended.aborted_keys), (vec!["now"], vec!["stuck"]));
    /// for job in ended.not_begun {
    ///     println!("{} was due in {:?}", job.key, job.info.time_left());
    ///     // Send it now.
    ///     if let Some(future) = job.future {
    ///         future.await;
    ///     }
    /// }
    /// let refused = jobs.try_run_after("invoice", Duration::from_secs(60), async {}).unwrap_err();
    /// assert_eq!(refused.to_string(), "the jobs were shut down, and take no more");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, limit: Duration) -> Ended<K>
    where
        K: Clone,
    {
        let (running, not_begun) = self.stop();
        let all_end = join_all(running.iter().map(|job| job.join()));
        let is_in_time = self.wheel.timeout(limit, all_end).await.is_ok();
        Ended::new(&running, !is_in_time, not_begun)
    }

    /// Ends all jobs at once, without waiting, as in a `Drop`: [`shutdown`](Self::shutdown) with no time for what runs.
    ///
    /// # Panics
    /// If the `Clone` of a key panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::Jobs;
    ///
    /// struct Sessions(Jobs<u64>);
    ///
    /// impl Drop for Sessions {
    ///     fn drop(&mut self) {
    ///         drop(self.0.shutdown_now());
    ///     }
    /// }
    ///
    /// let wheel = TimingWheel::new();
    /// let sessions = Sessions(Jobs::new(&wheel));
    /// sessions.0.try_run_after(7, Duration::from_secs(60), async { /* Close the session. */ }).unwrap();
    /// drop(sessions);
    /// assert_eq!(wheel.pending(), 0);
    /// # }
    /// ```
    pub fn shutdown_now(&self) -> Ended<K>
    where
        K: Clone,
    {
        let (running, not_begun) = self.stop();
        Ended::new(&running, true, not_begun)
    }

    /// From now on nothing begins. Returns what runs, and what has not begun.
    fn stop(&self) -> (Vec<Listed<K>>, Vec<StoppedJob<K>>)
    where
        K: Clone,
    {
        let mut not_begun = Vec::new();
        self.table.shut_down();
        let mut running = HashMap::new();
        for job in self.table.all() {
            // Before the job is cancelled, as it may panic.
            let key = job.key().clone();
            let (info, future) = job.stop();
            if info.state == JobState::Running {
                running.insert(address(&job), job);
                continue;
            }
            // One that could not run stays listed, and one that ended just now may still be.
            let is_taken = self.table.take_at(job.hash(), address(&job)).is_some();
            if !info.state.is_over() || is_taken && info.state == JobState::CouldNotRun {
                not_begun.push(StoppedJob { key, info, future });
            }
        }
        // Those that were removed or replaced too.
        running.extend(self.table.running().into_iter().map(|job| (address(&job), job)));
        (running.into_values().collect(), not_begun)
    }
}

/// How jobs ended, from [`Jobs::shutdown`].
#[derive(Debug)]
#[must_use = "it has the futures that have not begun"]
#[non_exhaustive]
pub struct Ended<K> {
    /// How many runs were going on, and have come to their end.
    pub finished: usize,
    /// How many runs were aborted, because the limit was over.
    pub aborted: usize,
    /// The keys of the runs that have come to their end, in no particular order.
    pub finished_keys: Vec<K>,
    /// The keys of the runs that were aborted, in no particular order.
    pub aborted_keys: Vec<K>,
    /// The jobs that have not begun, in no particular order.
    pub not_begun: Vec<StoppedJob<K>>,
}

impl<K: Clone> Ended<K> {
    fn new(running: &[Listed<K>], aborts: bool, not_begun: Vec<StoppedJob<K>>) -> Self {
        if aborts {
            running.iter().for_each(|job| _ = job.abort());
        }
        let (aborted, finished): (Vec<_>, Vec<_>) = running.iter().partition(|job| job.is_cut_off());
        let [finished_keys, aborted_keys] =
            [finished, aborted].map(|jobs| jobs.iter().map(|job| job.key().clone()).collect::<Vec<_>>());
        let (finished, aborted) = (finished_keys.len(), aborted_keys.len());
        Self { finished, aborted, finished_keys, aborted_keys, not_begun }
    }
}

/// A job that had not begun when it was ended, from [`Jobs::shutdown`].
pub struct StoppedJob<K> {
    /// The job's key.
    pub key: K,
    /// How [`Jobs::shutdown`] found the job. One that came due as the shutdown began is [`Queued`](JobState::Queued).
    pub info: JobInfo,
    /// The next run of the job: the future of a job that runs once, or one run of a job that repeats. It has not
    /// been polled. `None` if the job [could not run](JobState::CouldNotRun). Dropping it before its first poll does not
    /// panic: if the job's code does then, the panic hook alone reports that.
    pub future: Option<Unrun>,
}

impl<K: fmt::Debug> fmt::Debug for StoppedJob<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoppedJob").field("key", &self.key).field("info", &self.info).finish_non_exhaustive()
    }
}
