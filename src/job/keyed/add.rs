//! Adding jobs by their keys.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::table::{ByKey, Listing};
use crate::error::Error;
use crate::job::error::TryRunError;
use crate::job::record::Record;
use crate::job::schedule::{FixedRate, Schedule};
use crate::job::state::JobInfo;
use crate::job::work::{Once, Work};
use crate::wheel::Nanos;

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// Runs `future` after `delay` from now, as [`TimingWheel::run_after`](crate::TimingWheel::run_after) does.
    /// Replaces the job with this key, and tells how it found that, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// If the wheel has ended, if these jobs were [stopped](Self::stop), or if the wheel's
    /// [`max_pending`](crate::Builder::max_pending) timers are pending: a job that is to be replaced counts, and stays.
    pub fn run_after<F>(&self, key: K, delay: Duration, future: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_once(key, self.wheel.after_now(delay), future)
    }

    /// Runs `future` at `instant`, as [`run_after`](Self::run_after) does. If that has passed it runs at once.
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after).
    pub fn run_at<F>(&self, key: K, instant: Instant, future: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_once(key, self.wheel.nanos(instant), future)
    }

    /// Runs what `make` makes every `period`, the first time one period from now: [`run_by`](Self::run_by) a
    /// [`FixedRate`].
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after).
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn run_every<F, R>(
        &self,
        key: K,
        period: Duration,
        make: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.run_by(key, FixedRate::new(period), make)
    }

    /// Runs what `make` makes whenever `schedule` says, as [`TimingWheel::run_by`](crate::TimingWheel::run_by) does.
    /// Replaces the job with this key, and tells how it found that, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after). If there is no place for a job's next wait it stays in the list, and has the
    /// state [`CouldNotRun`](crate::job::JobState::CouldNotRun).
    ///
    /// # Panics
    /// If the schedule does when it is asked for the first run.
    pub fn run_by<F, R>(
        &self,
        key: K,
        schedule: impl Schedule,
        make: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        match self.wheel.repeat(schedule, make) {
            Ok(repeat) => {
                let added = self.add(key, self.wheel.nanos(repeat.due), repeat);
                added.map_err(|(error, repeat)| TryRunError::new(error, repeat.make))
            }
            // There is no run, so nothing takes the place of what there was.
            Err(_make) => Ok(self.remove(&key)),
        }
    }

    fn run_once<F>(&self, key: K, due: Nanos, future: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let added = self.add(key, due, Once(future));
        added.map_err(|(error, Once(future))| TryRunError::new(error, future))
    }

    fn add<W: Work>(&self, key: K, due: Nanos, work: W) -> Result<Option<JobInfo>, (Error, W)> {
        let record = Record::owned_by(Listing { key, table: Arc::downgrade(&self.table) }, &self.wheel);
        let mut part = self.table.part(&record.owner().key);
        if part.is_stopped {
            return Err((Error::stopped(), work));
        }
        // Under the part's lock, so that it cannot be over before it is listed.
        let due_work = record.arm(&self.wheel, due, work)?;
        let replaced = part.jobs.replace(ByKey(record.clone()));
        drop(part);
        if let Some(due_work) = due_work {
            record.spawn(due_work);
        }
        Ok(replaced.map(|job| job.0.cancel()))
    }
}
