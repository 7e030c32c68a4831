//! Adding jobs by their keys.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::table::{Listing, has_key};
use crate::error::Error;
use crate::services::job::error::TryRunError;
use crate::services::job::pending_run::PendingRun;
use crate::services::job::record::Record;
use crate::services::job::schedule::{FixedRate, Schedule};
use crate::services::job::state::JobInfo;
use crate::services::job::when::When;
use crate::services::job::work::{Once, Work};

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Runs `future` after `delay` from now, as [`TimingWheel::run_after`](crate::TimingWheel::run_after) does.
    /// Replaces the job with this key, and tells how it found that, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// If the wheel has ended, if these jobs were [stopped](Self::stop), or if the wheel's
    /// [`max_pending`](crate::Builder::max_pending) timers are pending. A job takes the place of the one that it replaces,
    /// if that waits or repeats. One whose only run has begun has no place: where there is no other it stays.
    ///
    /// # Panics
    /// If dropping what the replaced job runs does; the new job stays.
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
    ///
    /// # Panics
    /// As [`run_after`](Self::run_after).
    pub fn run_at<F>(&self, key: K, instant: Instant, future: F) -> Result<Option<JobInfo>, TryRunError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.run_once(key, self.wheel.when(instant), future)
    }

    /// Runs what `make` makes every `period`, the first time one period from now: [`run_by`](Self::run_by) a
    /// [`FixedRate`].
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after).
    ///
    /// # Panics
    /// If `period` is zero, and as [`run_after`](Self::run_after).
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
    /// Replaces the job with this key, and tells how it found that, as [`remove`](Self::remove) does. If the schedule
    /// has no run at all, as one that is to run [`times(0)`](Schedule::times), that job is removed and none is added.
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after). The job keeps its place until it is over.
    ///
    /// # Panics
    /// If the schedule does when it is asked for the first run; the job with this key stays. If dropping what has no
    /// run does, and as [`run_after`](Self::run_after).
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
                let added = self.add(key, self.wheel.when(repeat.due), repeat);
                added.map_err(|(error, repeat)| TryRunError::new(error, repeat.make))
            }
            Err(make) if self.wheel.is_ended() => Err(TryRunError::new(Error::shutdown(), make)),
            Err(make) => self.replace_by_nothing(&key).map_err(|error| TryRunError::new(error, make)),
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
        Ok(replaced.map(|job| job.cancel()))
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
        let place = part.place(hash, has_key(&record.owner().key));
        // Under the part's lock, so that it cannot be over before it is listed.
        let handed_over = place.job().and_then(|job| job.hand_over_place());
        let due = match record.arm(&self.wheel, when, work, handed_over.is_some()) {
            Ok(due) => due.map(|work| (record.clone(), work)),
            Err(refused) => {
                drop(part);
                // With a place only the end of the wheel refuses a job. That tells the one that stays, too.
                handed_over.flatten().into_iter().for_each(Waker::wake);
                return Err(refused);
            }
        };
        let replaced = place.list(record);
        drop(part);
        drop(handed_over);
        if let Some((record, work)) = due {
            record.spawn(work);
        }
        Ok(replaced.map(|job| job.cancel()))
    }
}
