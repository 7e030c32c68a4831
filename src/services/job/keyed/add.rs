//! Adding jobs by their keys.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::table::{Listing, has_key};
use crate::error::Error;
use crate::services::job::error::TryRunError;
use crate::services::job::info::{JobInfo, JobState};
use crate::services::job::pending_run::PendingRun;
use crate::services::job::record::Record;
use crate::services::job::schedule::{FixedRate, Schedule};
use crate::services::job::when::When;
use crate::services::job::work::{Once, Work};

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Runs `future` after `delay` from now, as [`TimingWheel::run_after`](crate::TimingWheel::run_after) does.
    /// Replaces the job with this key, and returns the state of the replaced job, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// If the wheel has ended, if these jobs were [stopped](Self::stop), or if the wheel's
    /// [`max_pending`](crate::Builder::max_pending) timers are pending. The job that was to be replaced then stays.
    ///
    /// On a full wheel the new job takes over the permit of the replaced job, if that job is pending or repeats. A job
    /// that runs once and has begun has no permit to hand over.
    ///
    /// # Panics
    /// If dropping what the replaced job runs panics; the new job stays.
    pub fn try_run_after<F>(
        &self,
        key: K,
        delay: Duration,
        future: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_once(key, self.after_now(delay), future)
    }

    /// Runs `future` at `instant`, as [`try_run_after`](Self::try_run_after) does. If that has passed, the job
    /// runs at once.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    ///
    /// # Panics
    /// As [`try_run_after`](Self::try_run_after).
    pub fn try_run_at<F>(
        &self,
        key: K,
        instant: Instant,
        future: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_once(key, self.when(instant), future)
    }

    /// Runs a new future from `make` at once, and then every `period`: [`try_run_by`](Self::try_run_by) with a
    /// [`FixedRate`].
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    ///
    /// # Panics
    /// If `period` is zero, and as [`try_run_after`](Self::try_run_after).
    #[track_caller]
    pub fn try_run_every<F, R>(
        &self,
        key: K,
        period: Duration,
        make: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.run_at_rate(key, FixedRate::new(period), make)
    }

    /// Runs a new future from `make` at `start`, and then every `period`, as [`try_run_every`](Self::try_run_every)
    /// does. If `start` has passed, the first run begins at once.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    ///
    /// # Panics
    /// If `period` is zero, and as [`try_run_after`](Self::try_run_after).
    #[track_caller]
    pub fn try_run_every_at<F, R>(
        &self,
        key: K,
        start: Instant,
        period: Duration,
        make: F,
    ) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.run_at_rate(key, FixedRate::new(period).starting_at(start), make)
    }

    /// Runs a new future from `make` whenever `schedule` says, as [`TimingWheel::run_by`](crate::TimingWheel::run_by)
    /// does. Replaces the job with this key, and returns the state of the replaced job, as [`remove`](Self::remove)
    /// does. If the schedule has no run at all, such as [`times(0)`](Schedule::times), that job is removed and none is
    /// added.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after). The job keeps its permit until it is over.
    ///
    /// # Panics
    /// If the schedule does when it is asked for the first run; the job with this key stays. If the schedule has no run,
    /// and dropping it or `make` panics. And as [`try_run_after`](Self::try_run_after).
    pub fn try_run_by<F, R>(
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
                let added = self.add(key, self.wheel.first_run(&repeat), repeat);
                added.map_err(|(error, repeat)| TryRunError::new(error, repeat.make))
            }
            Err(make) if self.wheel.is_ended() => Err(TryRunError::new(Error::shutdown(), make)),
            Err(make) => self.replace_by_nothing(&key).map_err(|error| TryRunError::new(error, make)),
        }
    }

    /// By a schedule of ours, which has the tolerance of this handle.
    #[track_caller]
    fn run_at_rate<F, R>(&self, key: K, rate: FixedRate, make: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        match self.tolerance {
            Some(tolerance) => self.try_run_by(key, rate.with_tolerance(tolerance), make),
            None => self.try_run_by(key, rate, make),
        }
    }

    /// For a job without a run: nothing takes the place of what there was.
    fn replace_by_nothing(&self, key: &K) -> Result<Option<JobInfo>, Error> {
        let hash = self.hasher.hash_one(key);
        let mut part = self.table.part(hash);
        if part.is_stopped {
            return Err(Error::stopped());
        }
        let replaced = part.take(hash, has_key(key));
        drop(part);
        Ok(replaced.map(|job| job.cancel().info))
    }

    fn run_once<F>(&self, key: K, when: When, future: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let added = self.add(key, when, Once(future));
        added.map_err(|(error, Once(future))| TryRunError::new(error, future))
    }

    fn add<W: Work>(&self, key: K, when: When, mut work: W) -> Result<Option<JobInfo>, (Error, W)> {
        let hash = self.hasher.hash_one(&key);
        let record = Record::owned_by(Listing { key, hash, table: Arc::downgrade(&self.table) }, &self.wheel);
        // Code of a user's, and so before the lock.
        work.attach(|| PendingRun::of(&record));
        let mut part = self.table.part(hash);
        if part.is_stopped {
            return Err((Error::stopped(), work));
        }
        // Keys are compared first: should that panic, nothing has begun.
        let entry = part.entry(hash, has_key(&record.owner().key));
        // Under the part's lock, so that it cannot be over before it is listed.
        let handed_over = entry.job().and_then(|job| job.hand_over_permit());
        let due = match record.arm(&self.wheel, when, work, handed_over.is_some()) {
            Ok(due) => due.map(|work| (record.clone(), work)),
            Err(refused) => {
                // With a permit only the end of the wheel refuses a job. It ends the one that stays, too.
                let stays = handed_over.as_ref().and_then(|_| entry.job().cloned());
                drop(part);
                drop(handed_over);
                if let Some(job) = stays {
                    job.end_without_successor();
                }
                return Err(refused);
            }
        };
        let replaced = entry.list(record);
        drop(part);
        let has_handed_over = handed_over.is_some();
        drop(handed_over);
        if let Some((record, work)) = due {
            record.spawn(work);
        }
        Ok(replaced.map(|job| {
            let mut found = job.cancel().info;
            // It was in a run, which has ended since, and had no permit to wait for the next with.
            if has_handed_over && found.state == JobState::Cancelled {
                found.state = JobState::Running;
            }
            found
        }))
    }
}
