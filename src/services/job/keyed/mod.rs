//! Jobs that are addressed by keys.

mod add;
mod ask;
mod change;
mod remove;
mod table;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use table::Table;

use crate::handle::timing_wheel::TimingWheel;

/// Jobs that are addressed by keys of the user's: added, replaced, removed, asked for, listed and counted.
///
/// A clone is the same jobs. They run as all [jobs](crate::job) do, on the runtime of their wheel. Dropping the last
/// clone leaves them to run; [`stop`](Self::stop) ends them all, and says which have not run.
///
/// A job that is over leaves the list, with one exception: one that could not run, because the wheel or its runtime has
/// ended, stays with the state [`JobState::CouldNotRun`](crate::job::JobState::CouldNotRun),
/// until it is removed or replaced, so that nothing is lost unseen. A run that panics ends its job;
/// [`Stats::jobs_panicked`](crate::Stats::jobs_panicked) counts it.
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
pub struct Jobs<K, S = RandomState> {
    wheel: TimingWheel,
    table: Arc<Table<K>>,
    /// Here, so that nothing of a job's knows its type.
    hasher: S,
}

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// No jobs as yet, for this wheel.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self::with_hasher(wheel, RandomState::new())
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// No jobs as yet, for this wheel, whose keys are hashed by `hasher`, once in each call.
    ///
    /// Unlike [`RandomState`], a fast hasher may let whoever chooses the keys choose such as have the same hash, and
    /// make each call slow. All bits of a hash count, the upper half for the lock that a key is under: they should
    /// differ among keys. A clone of the hasher has to hash as it does.
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
    /// jobs.run_after(7_u64, Duration::from_secs(60), async {})?;
    /// assert!(jobs.remove(&7).is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_hasher(wheel: &TimingWheel, hasher: S) -> Self {
        Self { wheel: wheel.clone(), table: Arc::new(Table::new()), hasher }
    }

    /// What hashes the keys.
    #[must_use]
    pub const fn hasher(&self) -> &S {
        &self.hasher
    }
}

impl<K, S: Clone> Clone for Jobs<K, S> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), table: self.table.clone(), hasher: self.hasher.clone() }
    }
}

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> fmt::Debug for Jobs<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("len", &self.len()).finish_non_exhaustive()
    }
}
