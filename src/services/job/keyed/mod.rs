//! Jobs that are addressed by keys.

mod add;
mod ask;
mod change;
mod join;
mod remove;
mod stop;
mod table;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use join::Join;
pub use stop::StoppedJob;

use table::Table;

use super::when::When;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::{Slack, Tolerance};

/// Jobs that are addressed by keys of the user's: added, replaced, removed, awaited, looked up, listed and counted.
///
/// A clone stands for the same jobs. They run as all [jobs](crate::job) do, on the runtime of their wheel. When the last
/// clone is dropped, the jobs still run. [`stop`](Self::stop) ends them all, and hands back those that have not run.
///
/// A job that is over leaves the list, with one exception: a job that could not run, because the wheel or its runtime
/// has ended, stays with the state [`JobState::CouldNotRun`](crate::job::JobState::CouldNotRun) until it is removed or
/// replaced, so that nothing is lost unseen. A run that panics ends its job;
/// [`Stats::jobs_panicked`](crate::Stats::jobs_panicked) counts it.
///
/// # Panics
/// Each method panics where the `Hash`, `Eq` or `Borrow` of a key does. `Eq` and `Borrow` must not call a method of
/// these jobs. If an `Eq` panics while a job is added, that job is dropped, and nothing else has changed.
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
/// jobs.try_run_after("order 7", 30 * MINUTE, async { /* Cancel the unpaid order. */ })?;
/// let thrice = FixedRate::new(MINUTE).starting_after(MINUTE).times(3);
/// jobs.try_run_by("reminder", thrice, || async { /* Remind the buyer. */ })?;
///
/// // The buyer asks for more time: the new job replaces the old one.
/// let replaced = jobs.try_run_after("order 7", 60 * MINUTE, async {})?.unwrap();
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
pub struct Jobs<K, S = RandomState> {
    wheel: TimingWheel,
    table: Arc<Table<K>>,
    /// Here, so that nothing of a job's knows its type.
    hasher: S,
    slack: Slack,
    tolerance: Option<Tolerance>,
}

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// An empty list of jobs for this wheel.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self::with_hasher(wheel, RandomState::new())
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// An empty list of jobs for this wheel, whose keys are hashed by `hasher`, once in each call.
    ///
    /// [`RandomState`] keeps an attacker who chooses keys from giving many keys the same hash, which would make each
    /// call slow. A faster hasher may not. All bits of a hash count, and the upper half chooses the lock, so all bits
    /// should differ among keys. A clone of the hasher has to hash as the hasher does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::hash::{BuildHasherDefault, Hasher};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::Jobs;
    ///
    /// /// For numbers of our own.
    /// #[derive(Default)]
    /// struct Fast(u64);
    ///
    /// impl Hasher for Fast {
    ///     fn write(&mut self, bytes: &[u8]) {
    ///         bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    ///     }
    ///
    ///     fn write_u64(&mut self, number: u64) {
    ///         let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
    ///         self.0 = (product >> 64) as u64 ^ product as u64;
    ///     }
    ///
    ///     fn finish(&self) -> u64 {
    ///         self.0
    ///     }
    /// }
    ///
    /// let jobs = Jobs::with_hasher(&TimingWheel::new(), BuildHasherDefault::<Fast>::default());
    /// jobs.try_run_after(7_u64, Duration::from_secs(60), async {})?;
    /// assert!(jobs.remove(&7).is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_hasher(wheel: &TimingWheel, hasher: S) -> Self {
        Self {
            wheel: wheel.clone(),
            table: Arc::new(Table::new()),
            hasher,
            slack: Slack::None,
            tolerance: None,
        }
    }

    /// Lets jobs be late if they are added or reset through the returned handle, so that they begin together with
    /// others that are due at about the same time, and cost less among very many: see [`Tolerance`].
    ///
    /// The tolerance counts for jobs that are added through this handle and its later clones, and for jobs that are
    /// [reset](Self::reset) through them. A job that runs by a schedule of your own has the tolerance of
    /// [that schedule](crate::job::Schedule::with_tolerance) instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::job::Jobs;
    /// use timingwheel::{TimingWheel, Tolerance};
    ///
    /// const IDLE: Duration = Duration::from_secs(60);
    ///
    /// let sessions = Jobs::new(&TimingWheel::new()).with_tolerance(Tolerance::share(0.125));
    /// sessions.try_run_after("alice", IDLE, async { /* Close the session. */ })?;
    /// let left = sessions.get("alice").unwrap().time_left().unwrap();
    /// assert!(left >= IDLE && left < IDLE + IDLE / 8);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.slack = Slack::new(tolerance, self.wheel.shard().resolution());
        self.tolerance = Some(tolerance);
        self
    }

    fn when(&self, instant: Instant) -> When {
        self.wheel.when(instant).within(self.slack)
    }

    fn after_now(&self, delay: Duration) -> When {
        self.wheel.after_now(delay).within(self.slack)
    }

    /// What hashes the keys.
    #[must_use]
    pub const fn hasher(&self) -> &S {
        &self.hasher
    }
}

impl<K, S: Clone> Clone for Jobs<K, S> {
    fn clone(&self) -> Self {
        Self {
            wheel: self.wheel.clone(),
            table: self.table.clone(),
            hasher: self.hasher.clone(),
            slack: self.slack,
            tolerance: self.tolerance,
        }
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> fmt::Debug for Jobs<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("len", &self.len()).finish_non_exhaustive()
    }
}
