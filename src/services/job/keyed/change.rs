//! What is changed of a job that stays.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use tokio::time::Instant;

use super::Jobs;
use super::table::{Job, has_key};
use crate::services::job::schedule::Schedule;
use crate::services::job::when::When;

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// Moves the job with this key to `deadline` and returns whether that was in time: there is a job, it was pending, and
    /// runs then. Otherwise nothing has changed. A job that repeats has its next run moved, as
    /// [`Repeating::reset`](crate::job::Repeating::reset) does, also during a run. The key may be given in any borrowed
    /// form, as to a `HashMap`.
    ///
    /// This costs what [`Job::reset`](crate::job::Job::reset) does, and a lookup: cheap enough to be called for each
    /// message of a session, and cheaper than replacing the job.
    ///
    /// # Precision
    /// As [`Job::reset`](crate::job::Job::reset).
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
    /// const IDLE: Duration = Duration::from_secs(60);
    ///
    /// let sessions = Jobs::new(&TimingWheel::new());
    /// sessions.try_run_after("alice", IDLE, async { /* Close the session. */ })?;
    /// for _message in 0..10 {
    ///     tokio::time::sleep(IDLE / 2).await;
    ///     assert!(sessions.reset_after("alice", IDLE), "it is still open");
    /// }
    /// tokio::time::sleep(2 * IDLE).await;
    /// assert!(!sessions.reset_after("alice", IDLE), "it was closed");
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.reset_to(key, self.when(deadline))
    }

    /// Moves the job with this key to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [583 years](crate::Sleep::deadline) the job never runs.
    pub fn reset_after<Q>(&self, key: &Q, after: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.reset_to(key, self.after_now(after))
    }

    /// Lets the job with this key go over to another schedule, as
    /// [`Repeating::set_schedule`](crate::job::Repeating::set_schedule) does, and returns whether that was in time: there
    /// is a job, it repeats, and it is not over. Otherwise `schedule` is dropped without being asked. The key may be
    /// given in any borrowed form, as to a `HashMap`.
    ///
    /// If the new schedule has no run, the job leaves the list.
    ///
    /// # Panics
    /// If the new schedule does when it is asked for the first run; the old one stays then. If the job is pending, and
    /// dropping the old schedule panics. If this is not in time, and dropping the new schedule panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{FixedRate, Jobs};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_every("poll", Duration::from_secs(60), || async {})?;
    /// assert!(jobs.set_schedule("poll", FixedRate::new(Duration::from_secs(5))));
    /// assert!(!jobs.set_schedule("push", FixedRate::new(Duration::from_secs(5))), "there is none");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_schedule<Q>(&self, key: &Q, schedule: impl Schedule) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.find(key).is_some_and(|job| job.set_schedule(Box::new(schedule)))
    }

    fn reset_to<Q>(&self, key: &Q, when: When) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.find(key).is_some_and(|job| job.reset(when))
    }

    /// The job with this key. Its part is unlocked again.
    pub(super) fn find<Q>(&self, key: &Q) -> Option<Job<K>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        self.table.part(hash).get(hash, has_key(key)).cloned()
    }
}
