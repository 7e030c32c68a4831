//! When a job runs: one method, from the run before to the next.

use std::sync::Weak;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::Instant;

use crate::record::AnyJob;

/// When the runs of a job are due. As in Go's `timingwheel`, a schedule computes the next run from the previous one.
///
/// [`FixedRate`](crate::FixedRate), [`FixedDelay`](crate::FixedDelay) and [`Backoff`](crate::Backoff) are built in. Any
/// other schedule is an `impl` of this trait, or a closure from [`Previous`] to `Option<Instant>`. [`times`](Self::times)
/// and [`until`](Self::until) end a schedule early. [`with_tolerance`](Self::with_tolerance) lets its runs be late.
///
/// # Panics
/// A `next` that panics ends its job, as a run that panics does. The first call is made by whoever makes the job, and
/// panics there. The same holds for `tolerance`.
///
/// # Examples
///
/// A calendar in wall-clock time, in which every day has 24 hours. The crate `timingwheel-calendar` has schedules for
/// time zones, and for the days on which clocks are moved. Those follow the wall clock even when somebody sets it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{JobsExt, Previous, Schedule};
/// use tokio::time::Instant;
///
/// /// Every day at 9 o'clock UTC.
/// fn at_nine(previous: Previous) -> Option<Instant> {
///     const DAY: u64 = 24 * 60 * 60;
///     const NINE: u64 = 9 * 60 * 60;
///     // The wall clock is read anew for each run, so it may have been set meanwhile.
///     let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
///     let until_nine = DAY - (now + DAY - NINE) % DAY;
///     Some(previous.ended + Duration::from_secs(until_nine))
/// }
///
/// let wheel = TimingWheel::new();
/// let reports = wheel.run_by(at_nine.until(Instant::now() + Duration::from_secs(30 * 86_400)), || async {
///     // Send the report.
/// });
/// assert!(reports.await.unwrap() >= 29);
/// # }
/// ```
pub trait Schedule: Send + 'static {
    /// When the next run is due, or `None` if there is none. An instant that has passed is due at once.
    ///
    /// The job calls this when a run has ended, and once before the first run. In that first call all times of
    /// [`Previous`] are now.
    fn next(&mut self, previous: Previous) -> Option<Instant>;

    /// How late the next run may be. The default is `None`: as punctual as the wheel.
    ///
    /// The job asks for it after each call of [`next`](Self::next). [`Previous::due`] stays what `next` said, so a fixed
    /// rate with a tolerance does not drift.
    fn tolerance(&self) -> Option<Duration> {
        None
    }

    /// Whether the run that is about to begin is left out, such as one that comes too late to be of use. The default is
    /// `false`.
    ///
    /// The job's task calls this at the beginning of each run that the schedule itself has planned. It does not call it
    /// for a run that the job's user has moved, or whose time the previous run has [decided](NextRun). A run that is
    /// left out does not call the job's closure and does not count as a run. The task asks for the [`next`](Self::next)
    /// run at once.
    ///
    /// # Panics
    /// A panic ends the job, as that of a run does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobsExt, Previous, Schedule};
    /// use tokio::time::Instant;
    ///
    /// /// Every minute, but only where that is within ten seconds of its time.
    /// struct Punctual(Instant);
    ///
    /// impl Schedule for Punctual {
    ///     fn next(&mut self, previous: Previous) -> Option<Instant> {
    ///         self.0 = previous.due + Duration::from_secs(60);
    ///         Some(self.0)
    ///     }
    ///
    ///     fn leaves_out(&mut self) -> bool {
    ///         self.0.elapsed() > Duration::from_secs(10)
    ///     }
    /// }
    ///
    /// // Each run takes 90 s, so every other run begins too late.
    /// let work = || tokio::time::sleep(Duration::from_secs(90));
    /// let job = TimingWheel::new().run_by(Punctual(Instant::now()).times(4), work);
    /// assert_eq!(job.await.unwrap(), 2);
    /// # }
    /// ```
    fn leaves_out(&mut self) -> bool {
        false
    }

    /// Gives the schedule a [`PendingRun`], which can move the run that the job waits for. The default drops it.
    ///
    /// A schedule may learn something while its job waits, such as that the wall clock was set. Then it moves the run to
    /// another instant by [`PendingRun::replan`], unless the job's user has moved it. This is called once for each job that
    /// gets the schedule, by whoever makes the job, after the first call of [`next`](Self::next) and before the job waits.
    /// Until the job is added, `replan` returns [`NotPending`](Replanned::NotPending), as during a run. A schedule that keeps
    /// its news for the next call of [`next`](Self::next), or calls again later, loses nothing.
    ///
    /// # Panics
    /// A panic reaches whoever makes the job.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobsExt, PendingRun, Previous, Schedule};
    /// use tokio::time::Instant;
    ///
    /// /// Every hour, or as soon as somebody asks for it.
    /// struct Hourly(Arc<Mutex<Option<PendingRun>>>);
    ///
    /// impl Schedule for Hourly {
    ///     fn next(&mut self, previous: Previous) -> Option<Instant> {
    ///         Some(previous.ended + Duration::from_secs(3_600))
    ///     }
    ///
    ///     fn attach(&mut self, run: PendingRun) {
    ///         *self.0.lock().unwrap() = Some(run);
    ///     }
    /// }
    ///
    /// let wheel = TimingWheel::new();
    /// let (start, asked) = (Instant::now(), Arc::default());
    /// let job = wheel.run_by(Hourly(Arc::clone(&asked)).times(1), || async {});
    /// asked.lock().unwrap().as_ref().unwrap().replan(Some(start + Duration::from_secs(5)));
    /// assert_eq!(job.await.unwrap(), 1);
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # }
    /// ```
    fn attach(&mut self, run: PendingRun) {
        drop(run);
    }

    /// This schedule for at most `runs` runs. One that is [left out](Self::leaves_out) is one of them.
    fn times(self, runs: u64) -> Adjusted<Self>
    where
        Self: Sized,
    {
        Adjusted { left: Some(runs), ..Adjusted::new(self, None) }
    }

    /// This schedule for the runs that are due by `end`.
    fn until(self, end: Instant) -> Adjusted<Self>
    where
        Self: Sized,
    {
        Adjusted { end: Some(end), ..Adjusted::new(self, None) }
    }

    /// This schedule with runs that may be late, so that they begin together with others that are due at about the same
    /// time, and cost less among very many.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](TimingWheel#precision)), whichever is more. See
    /// [`Sleep::with_tolerance`](timingwheel::Sleep::with_tolerance).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel_jobs::{JobsExt, FixedRate, Schedule};
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let minutely = FixedRate::new(Duration::from_secs(60)).with_tolerance(Duration::from_secs(7));
    /// assert_eq!(wheel.run_by(minutely.times(61), || async {}).await.unwrap(), 61);
    /// let late = start.elapsed() - Duration::from_secs(3_600);
    /// assert!(late < Duration::from_secs(60) / 8, "it does not add up");
    /// # }
    /// ```
    fn with_tolerance(self, tolerance: Duration) -> Adjusted<Self>
    where
        Self: Sized,
    {
        Adjusted::new(self, Some(tolerance))
    }

    /// This schedule with each run later by chance, by less than `most`, so that jobs which were made together do not all
    /// run together. The schedule goes on from the times without that, so a fixed rate does not drift.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{FixedRate, JobsExt, Schedule};
    /// use tokio::time::Instant;
    ///
    /// let (start, minute) = (Instant::now(), Duration::from_secs(60));
    /// let minutely = FixedRate::new(minute).with_jitter(Duration::from_secs(10));
    /// TimingWheel::new().run_by(minutely.times(61), || async {}).await.unwrap();
    /// assert!(start.elapsed() >= 60 * minute && start.elapsed() < 60 * minute + Duration::from_secs(10));
    /// # }
    /// ```
    fn with_jitter(self, most: Duration) -> Adjusted<Self>
    where
        Self: Sized,
    {
        Adjusted { jitter: most, ..Adjusted::new(self, None) }
    }
}

/// The run before the one that a [`Schedule`] is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Previous {
    /// When it was due.
    pub due: Instant,
    /// When it began.
    pub started: Instant,
    /// When it ended: now.
    pub ended: Instant,
    /// Whether it began so late that an [`Interval`](timingwheel::Interval) would call its tick missed: more than 5 ms after
    /// it was due, or more than a tick of the wheel if that is longer. A [tolerance](Schedule::tolerance) comes on top.
    pub missed: bool,
}

impl Previous {
    /// A run that was due, began and ended at `instant`. A schedule begins with it, and its tests need it.
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self { due: instant, started: instant, ended: instant, missed: false }
    }
}

impl<F: FnMut(Previous) -> Option<Instant> + Send + 'static> Schedule for F {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self(previous)
    }
}

impl Schedule for Box<dyn Schedule> {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        (**self).next(previous)
    }

    fn tolerance(&self) -> Option<Duration> {
        (**self).tolerance()
    }

    fn leaves_out(&mut self) -> bool {
        (**self).leaves_out()
    }

    fn attach(&mut self, run: PendingRun) {
        (**self).attach(run);
    }
}

/// The instant `delay` from now by the wheel's clock, also for a thread that is within a runtime with a paused one; or one
/// that never comes.
pub(crate) fn after_now(wheel: &TimingWheel, delay: Duration) -> Instant {
    wheel.sleep(delay).deadline()
}

/// 30 years: a time that an [`Instant`] cannot hold is so much later, as tokio has it.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// A schedule with limits, tolerance or jitter, from [`Schedule::times`] and its kin.
#[derive(Clone, Debug)]
pub struct Adjusted<S> {
    schedule: S,
    left: Option<u64>,
    end: Option<Instant>,
    tolerance: Option<Duration>,
    jitter: Duration,
    /// The last answer of the schedule, without jitter and with it.
    said: Option<(Instant, Instant)>,
}

impl<S> Adjusted<S> {
    pub(crate) const fn new(schedule: S, tolerance: Option<Duration>) -> Self {
        Self { schedule, left: None, end: None, tolerance, jitter: Duration::ZERO, said: None }
    }
}

impl<S: Schedule> Schedule for Adjusted<S> {
    fn next(&mut self, mut previous: Previous) -> Option<Instant> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        // Unless the run was moved.
        if let Some((said, due)) = self.said.take()
            && due == previous.due
        {
            previous.due = said;
        }
        let next = self.schedule.next(previous)?;
        if self.end.is_some_and(|end| next > end) {
            return None;
        }
        if self.jitter.is_zero() {
            return Some(next);
        }
        let due = later(next, self.jitter.mul_f64(fastrand::f64()));
        self.said = Some((next, due));
        Some(due)
    }

    fn tolerance(&self) -> Option<Duration> {
        self.tolerance.or_else(|| self.schedule.tolerance())
    }

    fn leaves_out(&mut self) -> bool {
        self.schedule.leaves_out()
    }

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}

/// When a job runs again, as the run that has ended decides: what the future of a job that repeats may return.
///
/// `()` stands for [`BySchedule`](Self::BySchedule). If the job's user has reset the job during the run, the reset
/// comes first. A time that the run decides counts as one that the user has set by a reset: the
/// schedule neither [moves](PendingRun::replan) that run nor [leaves it out](Schedule::leaves_out).
///
/// # Examples
///
/// A token that is refreshed every hour, or 5 s after a failure:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{JobsExt, NextRun};
///
/// # let mut tries = 0;
/// # let mut refresh = move || { tries += 1; let ok = tries > 1; async move { if ok { Ok(()) } else { Err(()) } } };
/// let job = TimingWheel::new().run_every(Duration::from_secs(3_600), move || {
///     let refreshed = refresh();
///     async move {
///         match refreshed.await {
///             Ok(()) => NextRun::BySchedule,
///             Err(()) => NextRun::After(Duration::from_secs(5)),
///         }
///     }
/// });
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// assert_eq!(job.time_left(), Some(Duration::from_secs(4)));
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// assert_eq!(job.time_left(), Some(Duration::from_secs(3_599)));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextRun {
    /// When the schedule says.
    #[default]
    BySchedule,
    /// So long after the end of this run. The schedule is not asked, and goes on from the new run.
    After(Duration),
    /// At this instant, or at once if that has passed. The schedule is not asked, and goes on from the new run.
    At(Instant),
    /// Not: the job is done.
    Never,
}

/// When the run that follows is due, how late it may be, and whether somebody else than the schedule has said so.
#[derive(Default)]
pub(crate) struct Next {
    pub(crate) due: Option<Instant>,
    pub(crate) tolerance: Option<Duration>,
    pub(crate) is_users: bool,
}

/// The output of a repeating job's futures: `()`, or a [`NextRun`], or none if they never return.
pub trait Answer {
    /// When the job runs again.
    fn next_run(self) -> NextRun;
}

impl Answer for NextRun {
    fn next_run(self) -> NextRun {
        self
    }
}

impl Answer for () {
    fn next_run(self) -> NextRun {
        NextRun::BySchedule
    }
}

/// Makes the runs of a job that repeats: a closure that returns futures. Their outputs are [answers](Answer), so `()`
/// or a [`NextRun`].
pub trait Runs: Send + 'static {
    /// One run.
    type Run: Future<Output: Answer> + Send + 'static;

    /// Makes the next run.
    fn run(&mut self) -> Self::Run;
}

impl<F, R> Runs for F
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output: Answer> + Send + 'static,
{
    type Run = R;

    fn run(&mut self) -> R {
        self()
    }
}

/// The type of a future that only panics, which has no name of its own yet.
type Never = <fn() -> ! as Returns>::Output;

/// Names what a function returns.
#[doc(hidden)]
pub trait Returns {
    #[doc(hidden)]
    type Output;
}

impl<O> Returns for fn() -> O {
    type Output = O;
}

impl Answer for Never {
    fn next_run(self) -> NextRun {
        self
    }
}

/// An instant that an [`Instant`] cannot hold is 30 years later, as tokio has it.
pub(crate) fn later(instant: Instant, delay: Duration) -> Instant {
    instant.checked_add(delay).unwrap_or_else(|| instant + LONGEST)
}

/// The run that a repeating job waits for, from [`Schedule::attach`].
///
/// It does not keep the job alive. A clone stands for the same run.
#[derive(Clone, Debug)]
pub struct PendingRun(pub(crate) Weak<dyn AnyJob>);

impl PendingRun {
    /// Changes the schedule's last answer to `next`: moves the run there, or ends the job if `next` is `None`, unless the
    /// job's user has moved the run. Returns what has become of it.
    ///
    /// A user moves a run by [`Repeating::reset`](crate::Repeating::reset), [`Jobs::reset`](crate::Jobs::reset), or their
    /// forms that take a duration, before the run or during the one before it. Such a run is the user's until it begins.
    /// No reset of the user's is lost, even if both come at the same time: this
    /// call checks for a user's move and moves the run under one lock.
    ///
    /// # Panics
    /// If this ends the job, and dropping what the job runs or its schedule panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::sync::{Arc, OnceLock};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobsExt, PendingRun, Previous, Replanned, Schedule};
    /// use tokio::time::Instant;
    ///
    /// /// Every hour, until it learns something else.
    /// struct Hourly(Arc<OnceLock<PendingRun>>);
    ///
    /// impl Schedule for Hourly {
    ///     fn next(&mut self, previous: Previous) -> Option<Instant> {
    ///         Some(previous.ended + Duration::from_secs(3_600))
    ///     }
    ///
    ///     fn attach(&mut self, run: PendingRun) {
    ///         _ = self.0.set(run);
    ///     }
    /// }
    ///
    /// let attached = Arc::new(OnceLock::new());
    /// let job = TimingWheel::new().run_by(Hourly(attached.clone()), || async {});
    /// let run = attached.get().unwrap();
    ///
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// assert_eq!(run.replan(Some(soon)), Replanned::Done);
    /// assert_eq!(job.due(), Some(soon));
    ///
    /// // The user moves the run.
    /// let sooner = Instant::now() + Duration::from_secs(5);
    /// assert!(job.reset(sooner));
    /// assert_eq!(run.replan(Some(soon)), Replanned::MovedByUser);
    /// assert_eq!(job.due(), Some(sooner));
    /// # }
    /// ```
    pub fn replan(&self, next: Option<Instant>) -> Replanned {
        self.0.upgrade().map_or(Replanned::NotPending, |job| job.replan(next))
    }
}

/// The result of a [`PendingRun::replan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replanned {
    /// The job waits for the new instant, or is over as there is none.
    Done,
    /// The job's user has moved the run. It stays where it is.
    MovedByUser,
    /// Nothing has changed, as there is no run to move: one is going on or about to begin, the job is over, or it has not
    /// been added yet.
    NotPending,
}
