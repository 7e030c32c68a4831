//! Jobs that are addressed by keys. `table` has the list behind them, and `shutdown` their end.

mod shutdown;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use equivalent::Equivalent;
use timingwheel::TimingWheel;
use tokio::time::Instant;

use crate::built_in::FixedRate;
use crate::error::TryRunError;
use crate::info::{JobInfo, Join};
use crate::record::Record;
use crate::schedule::{MakeRun, Schedule, When};
use crate::table::{Listed, Table};
use crate::task::{First, Once, Repeat, Work};

pub use self::shutdown::{Ended, StoppedJob};

/// Jobs that are addressed by keys of the user's: added, replaced, removed, awaited, looked up, listed and counted.
///
/// A clone stands for the same jobs. They run as all [jobs](crate) do, on the runtime of their wheel. When the last clone
/// is dropped, the jobs still run. [`shutdown`](Self::shutdown) ends them all, and hands back those that have not begun.
///
/// A job that is over leaves the list, with one exception: a job that could not run, because the wheel or its runtime
/// has ended, stays with the state [`CouldNotRun`](crate::JobState::CouldNotRun) until it is removed or
/// replaced, so that nothing is lost unseen. A run that panics ends its job;
/// [`panicked`](Self::panicked) counts it.
///
/// # Keys
/// A job is looked up by its key, by any borrowed form of it as in a `HashMap`, or by another type that is
/// [`Equivalent`] to the key. Such a type must hash as the key does: otherwise the job is not found, and no
/// error tells of that. A struct does so if it has the fields of the key in the same order, and derives `Hash`:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{Equivalent, Jobs};
///
/// /// Looks up a key `(String, u32)` without a `String`.
/// #[derive(Hash)]
/// struct Order<'a>(&'a str, u32);
///
/// impl Equivalent<(String, u32)> for Order<'_> {
///     fn equivalent(&self, (shop, number): &(String, u32)) -> bool {
///         self.0 == shop && self.1 == *number
///     }
/// }
///
/// let jobs = Jobs::new(&TimingWheel::new());
/// jobs.try_run_after(("north".to_owned(), 7), Duration::from_secs(60), async {})?;
/// assert!(jobs.get(&Order("north", 8)).is_none());
/// assert!(jobs.remove(&Order("north", 7)).is_some());
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// Each method panics where the `Hash`, `Eq`, `Borrow` or `Equivalent` of a key does. If an `Eq` panics while a job is added,
/// that job is dropped, and nothing else has changed. Keys are compared under a lock, as in every map behind one. So an `Eq`
/// or `Equivalent` that calls these jobs may wait for itself.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{FixedRate, JobState, Jobs, Schedule};
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
pub struct Jobs<K> {
    wheel: TimingWheel,
    table: Arc<Table<K>>,
}

/// The result of adding a job: the state of the job that it has replaced.
type Added<F, K> = Result<Option<JobInfo>, TryRunError<F, K>>;

/// The bounds of every key, so that a task can look after its job.
pub(crate) trait Key: Send + Sync + 'static {}

impl<K: Send + Sync + 'static> Key for K {}

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// An empty list of jobs for this wheel.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), table: Arc::new(Table::new()) }
    }

    /// These jobs, of which at most `runs` run at once.
    ///
    /// A job that comes due while as many run is [`Queued`](crate::JobState::Queued), and is no task yet. First come, first run. A
    /// job that waits for a place needs no timer, so it has no permit of a wheel with a bound, and it cannot be reset. The
    /// wait does not count as a [missed](crate::LastRun::missed) run. [`running_and_queued`](Self::running_and_queued)
    /// counts both. A bound that is raised while jobs wait takes effect when the next run ends or comes due.
    ///
    /// # Panics
    /// If `runs` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::Jobs;
    /// use tokio::time::{Instant, sleep};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new()).with_concurrency(2);
    /// for mail in 0..5 {
    ///     jobs.try_run_after(mail, Duration::from_secs(60), async { sleep(Duration::from_secs(1)).await })?;
    /// }
    /// let start = Instant::now();
    /// sleep(Duration::from_millis(60_500)).await;
    /// assert_eq!(jobs.running_and_queued(), (2, 3));
    /// jobs.join(&4).unwrap().await;
    /// assert_eq!(start.elapsed().as_secs(), 60 + 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_concurrency(self, runs: usize) -> Self {
        assert!(runs > 0, "the concurrency of jobs must be at least 1, got {runs}");
        self.table.limit(runs);
        self
    }

    /// Runs `future` after `delay` from now, as [`TimingWheel::run_after`](crate::JobsExt::run_after) does.
    /// Replaces the job with this key, and returns the state of the replaced job, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// If the wheel has ended, if these jobs were [shut down](Self::shutdown), or if the wheel's
    /// [`max_pending`](timingwheel::Builder::max_pending) timers are pending. The job that was to be replaced then stays, and
    /// the error has the key and the future. A job that is due at once on the wheel's own runtime needs no timer, so a
    /// full wheel takes it.
    ///
    /// # Panics
    /// If dropping what the replaced job runs panics; the new job stays.
    pub fn try_run_after<F>(&self, key: K, delay: Duration, future: F) -> Added<F, K>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.add(key, Once::new(self.wheel.sleep(delay), future))
    }

    /// Runs `future` at `instant`, as [`try_run_after`](Self::try_run_after) does. If that has passed, the job
    /// runs at once.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    ///
    /// # Panics
    /// As [`try_run_after`](Self::try_run_after).
    pub fn try_run_at<F>(&self, key: K, instant: Instant, future: F) -> Added<F, K>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.add(key, Once::new(self.wheel.sleep_until(instant), future))
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
    pub fn try_run_every<F: MakeRun>(&self, key: K, period: Duration, make: F) -> Added<F, K> {
        self.try_run_by(key, FixedRate::new(period), make)
    }

    /// Runs a new future from `make` whenever `schedule` says, as [`TimingWheel::run_by`](crate::JobsExt::run_by)
    /// does. Replaces the job with this key, and returns the state of the replaced job, as [`remove`](Self::remove)
    /// does. If the schedule has no run at all, such as [`times(0)`](Schedule::times), that job is removed and none is
    /// added.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    ///
    /// # Panics
    /// If the schedule does when it is asked for the first run; the job with this key stays. If the schedule has no run,
    /// and dropping it or `make` panics. And as [`try_run_after`](Self::try_run_after).
    pub fn try_run_by<F: MakeRun>(&self, key: K, schedule: impl Schedule, make: F) -> Added<F, K> {
        self.add(key, Repeat::new(&self.wheel, schedule, make))
    }

    fn add<W: Work>(&self, key: K, (first, work): (First, W)) -> Added<W::Given, K> {
        let (hash, has_run) = (self.table.hasher.hash_one(&key), first.is_some());
        let record = Record::new(&self.wheel, &first, (work, None), (key, hash, Some(self.table.clone())));
        match record.start(first, || self.table.replace(record.clone(), has_run)) {
            Ok(replaced) => Ok(replaced.map(|job| job.cancel().info)),
            Err((refused, work)) => Err(TryRunError::new(refused, record.into_key(), work.given())),
        }
    }

    /// Removes the job with this [key](Self#keys), and returns the state in which the job was; `None` if there is none.
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
    /// use timingwheel_jobs::{JobState, Jobs};
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
    pub fn remove(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> Option<JobInfo> {
        self.table.take(self.table.hasher.hash_one(key), key).map(|job| job.cancel().info)
    }

    /// Removes the job with this [key](Self#keys) as [`remove`](Self::remove) does, and ends a run that is going
    /// on, where it waits next: see [`Job::abort`](crate::Job::abort).
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
    /// use timingwheel_jobs::{JobState, Jobs};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("stuck", Duration::ZERO, std::future::pending())?;
    /// let end = jobs.join("stuck").unwrap();
    /// assert_eq!(jobs.abort("stuck").unwrap().state, JobState::Running);
    /// assert_eq!(end.await, JobState::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> Option<JobInfo> {
        self.table.take(self.table.hasher.hash_one(key), key).map(|job| job.abort().info)
    }

    /// Where the job with this [key](Self#keys) stands now; `None` if there is none.
    #[must_use]
    pub fn get(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> Option<JobInfo> {
        self.find(key).map(|job| job.info())
    }

    /// To wait for the end of the job that has this [key](Self#keys) now; `None` if there is none.
    ///
    /// Any number of tasks may wait for the same job. A job that takes the key later is another.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobState, Jobs};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("order 7", Duration::from_secs(60), async {})?;
    /// let end = jobs.join("order 7").unwrap();
    /// assert_eq!(end.await, JobState::Done);
    /// assert!(jobs.join("order 7").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn join(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> Option<Join> {
        self.find(key).map(|job| job.join())
    }

    /// Moves the job with this [key](Self#keys) to `deadline` and returns whether that was in time: there is a job,
    /// it was pending, and runs then. Otherwise nothing has changed. A job that repeats has its next run moved, as
    /// [`Repeating::reset`](crate::Repeating::reset) does, also during a run.
    ///
    /// This costs what [`Job::reset`](crate::Job::reset) does, and a lookup: cheap enough to be called for each
    /// message of a session, and cheaper than replacing the job.
    ///
    /// # Precision
    /// As [`Job::reset`](crate::Job::reset).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::Jobs;
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
    pub fn reset(&self, key: &(impl Hash + Equivalent<K> + ?Sized), deadline: Instant) -> bool {
        self.find(key).is_some_and(|job| job.reset(When::At(deadline)))
    }

    /// Moves the job with this [key](Self#keys) to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](timingwheel::Sleep::deadline) the job never runs.
    pub fn reset_after(&self, key: &(impl Hash + Equivalent<K> + ?Sized), after: Duration) -> bool {
        self.find(key).is_some_and(|job| job.reset(When::After(after)))
    }

    /// All keys, in no particular order, and where their jobs stand now.
    ///
    /// Locks the parts of the list one after the other, and looks at each job.
    #[must_use]
    pub fn list(&self) -> Vec<(K, JobInfo)>
    where
        K: Clone,
    {
        self.table.all().iter().map(|job| (job.key().clone(), job.info())).collect()
    }

    /// How many keys there are.
    ///
    /// Locks the parts of the list one after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the jobs have panicked so far. The wheel's
    /// [`Stats::wakers_panicked`](timingwheel::Stats::wakers_panicked) counts the panics of all its jobs.
    #[must_use]
    pub fn panicked(&self) -> u64 {
        self.table.panicked.load(Ordering::Relaxed)
    }

    /// How many jobs run, also those whose keys were removed, and how many are due and
    /// [wait for a place](Self::with_concurrency).
    #[must_use]
    pub fn running_and_queued(&self) -> (usize, usize) {
        self.table.running_and_queued()
    }

    /// The job with this key.
    fn find(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> Option<Listed<K>> {
        self.table.find(self.table.hasher.hash_one(key), key)
    }
}

impl<K> Clone for Jobs<K> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), table: self.table.clone() }
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> fmt::Debug for Jobs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("len", &self.len()).finish_non_exhaustive()
    }
}
