//! Jobs that are addressed by keys. `table` has the list behind them.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use equivalent::Equivalent;
use futures::future::join_all;
use timingwheel::TimingWheel;
use tokio::time::Instant;

use crate::built_in::FixedRate;
use crate::error::{Refused, TryRunError};
use crate::info::{JobInfo, JobState, Join};
use crate::record::{First, Record};
use crate::schedule::{Runs, Schedule, after_now};
use crate::table::{Listed, Table, address};
use crate::task::{Once, Repeat, Unrun, Work};

/// Jobs that are addressed by keys of the user's: added, replaced, removed, awaited, looked up, listed and counted.
///
/// A clone stands for the same jobs. They run as all [jobs](crate) do, on the runtime of their wheel. When the last clone
/// is dropped, the jobs still run. [`shutdown`](Self::shutdown) ends them all, and hands back those that have not begun.
///
/// A job that is over leaves the list, with one exception: a job that could not run, because the wheel or its runtime
/// has ended, stays with the state [`JobState::CouldNotRun`] until it is removed or
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
/// Each method panics where the `Hash`, `Eq`, `Borrow` or `Equivalent` of a key does. All of them may call methods of these
/// jobs. If an `Eq` panics while a job is added, that job is dropped, and nothing else has changed.
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
type Added<F> = Result<Option<JobInfo>, TryRunError<F>>;

/// The bounds of every key, so that a task can look after its job.
pub(crate) trait Key: Send + Sync + 'static {}

impl<K: Send + Sync + 'static> Key for K {}

impl<K: Eq + Hash + Send + Sync + 'static> Jobs<K> {
    /// An empty list of jobs for this wheel.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), table: Arc::new(Table::new()) }
    }

    /// Runs `future` after `delay` from now, as [`TimingWheel::run_after`](crate::JobsExt::run_after) does.
    /// Replaces the job with this key, and returns the state of the replaced job, as [`remove`](Self::remove) does.
    ///
    /// # Errors
    /// If the wheel has ended, if these jobs were [shut down](Self::shutdown), or if the wheel's
    /// [`max_pending`](timingwheel::Builder::max_pending) timers are pending. The job that was to be replaced then stays. A
    /// job that is due at once on the wheel's own runtime needs no timer, so a full wheel takes it.
    ///
    /// # Panics
    /// If dropping what the replaced job runs panics; the new job stays.
    pub fn try_run_after<F>(&self, key: K, delay: Duration, future: F) -> Added<F>
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
    pub fn try_run_at<F>(&self, key: K, instant: Instant, future: F) -> Added<F>
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
    pub fn try_run_every<F: Runs>(&self, key: K, period: Duration, make: F) -> Added<F> {
        self.try_run_by(key, FixedRate::new(period), make)
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
    pub fn try_run_every_at<F: Runs>(&self, key: K, start: Instant, period: Duration, make: F) -> Added<F> {
        self.try_run_by(key, FixedRate::new(period).starting_at(start), make)
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
    pub fn try_run_by<F: Runs>(&self, key: K, schedule: impl Schedule, make: F) -> Added<F> {
        self.add(key, Repeat::new(&self.wheel, schedule, make))
    }

    fn add<W: Work>(&self, key: K, (first, mut work): (First, W)) -> Added<W::Given> {
        let hash = self.table.hasher.hash_one(&key);
        let record = Record::new(&self.wheel, &first, key, hash, Arc::downgrade(&self.table));
        // Armed before it is listed: what is refused leaves the list as it was. It gets its code as it is listed, so it does not
        // run before.
        let replaced = match record.arm(first, &mut work) {
            Ok(Some(armed)) => {
                let (mut code, mut left) = (Some((work, None)), None);
                let replaced = self.table.list(record, |record: &Arc<Record<K, W>>| {
                    let armed = record.give(code.take().expect("it is given once"), armed);
                    left = armed.map(|armed| (record.clone(), armed));
                });
                let Ok(replaced) = replaced else {
                    let (work, _) = code.expect("a job that is not listed gets no code");
                    return Err(TryRunError::new(Refused::by_jobs(), work.given()));
                };
                if let Some((record, armed)) = left {
                    record.work_at(armed);
                }
                replaced
            }
            Ok(None) if self.table.is_shut_down() => {
                return Err(TryRunError::new(Refused::by_jobs(), work.given()));
            }
            Ok(None) => self.table.take(hash, &record.key),
            Err(reason) => return Err(TryRunError::new(reason, work.given())),
        };
        Ok(replaced.map(|job| job.cancel(false).0))
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
        self.table.take(self.table.hasher.hash_one(key), key).map(|job| job.cancel(false).0)
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
        self.table.take(self.table.hasher.hash_one(key), key).map(|job| job.cancel(true).0)
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
        self.find(key).is_some_and(|job| job.reset(deadline))
    }

    /// Moves the job with this [key](Self#keys) to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](timingwheel::Sleep::deadline) the job never runs.
    pub fn reset_after(&self, key: &(impl Hash + Equivalent<K> + ?Sized), after: Duration) -> bool {
        self.reset(key, after_now(&self.wheel, after))
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

    /// How many of the jobs have panicked so far.
    #[must_use]
    pub fn panicked(&self) -> u64 {
        self.table.panicked.load(Ordering::Relaxed)
    }

    /// Ends all jobs: nothing new begins, and what runs is waited for, for at most `limit`, and then aborted. Returns how
    /// many runs have come to their end, how many were aborted, and the jobs that have not begun, with their futures.
    /// `Durable::stop` of `timingwheel-durable` is the same for durable timers.
    ///
    /// From the first poll on, new jobs are refused and pending jobs do not run. A run that is going on is the last of
    /// its job. A job that could not run counts among those that have not begun; it has no future any more. An aborted
    /// run ends where it waits next, and `shutdown` does not wait for that. A second call, even from another task,
    /// waits for the runs that are still going on. A pending job that another thread removes or replaces at that moment is
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
    /// assert_eq!((ended.finished, ended.aborted), (1, 1));
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
        let (mut running, mut not_begun) = (Vec::new(), Vec::new());
        self.table.shut_down();
        for job in self.table.all() {
            // Before the job is cancelled, as it may panic.
            let key = job.key().clone();
            let (info, future) = job.stop();
            if info.state == JobState::Running {
                running.push(job);
                continue;
            }
            // One that could not run stays listed, and one that ended just now may still be.
            let is_taken = self.table.take_at(job.hash(), address(&job)).is_some();
            if info.state == JobState::Pending || is_taken && info.state == JobState::CouldNotRun {
                not_begun.push(StoppedJob { key, info, future });
            }
        }
        let all_end = join_all(running.iter().map(|job| job.join()));
        let is_in_time = self.wheel.timeout(limit, all_end).await.is_ok();
        let aborted = running.iter().filter(|job| !is_in_time && job.cancel(true).1).count();
        Ended { finished: running.len() - aborted, aborted, not_begun }
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

/// How jobs ended, from [`Jobs::shutdown`].
#[derive(Debug)]
#[must_use = "it has the futures that have not begun"]
#[non_exhaustive]
pub struct Ended<K> {
    /// How many runs were going on, and have come to their end.
    pub finished: usize,
    /// How many runs were aborted, because the limit was over.
    pub aborted: usize,
    /// The jobs that have not begun, in no particular order.
    pub not_begun: Vec<StoppedJob<K>>,
}

/// A job that had not begun when it was ended, from [`Jobs::shutdown`].
pub struct StoppedJob<K> {
    /// The job's key.
    pub key: K,
    /// How [`Jobs::shutdown`] found the job.
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
