//! When a job runs: one method, from the run before to the next.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::Instant;

use crate::record::AnyJob;

/// When the runs of a job are due. As in Go's `timingwheel`, a schedule computes the next run from the last one.
///
/// [`FixedRate`](crate::FixedRate), [`FixedDelay`](crate::FixedDelay) and [`Backoff`](crate::Backoff) are built in. Any
/// other schedule is an `impl` of this trait, or a closure from [`LastRun`] to `Option<Instant>`. [`times`](Self::times)
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
/// use timingwheel_jobs::{JobsExt, LastRun, Schedule};
/// use tokio::time::Instant;
///
/// /// Every day at 9 o'clock UTC.
/// fn at_nine(last: LastRun) -> Option<Instant> {
///     const DAY: u64 = 24 * 60 * 60;
///     const NINE: u64 = 9 * 60 * 60;
///     // The wall clock is read anew for each run, so it may have been set meanwhile.
///     let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
///     let until_nine = DAY - (now + DAY - NINE) % DAY;
///     Some(last.ended + Duration::from_secs(until_nine))
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
    /// [`LastRun`] are now.
    fn next(&mut self, last: LastRun) -> Option<Instant>;

    /// How late the next run may be. The default is `None`: as punctual as the wheel.
    ///
    /// The job asks for it after each call of [`next`](Self::next). [`LastRun::due`] stays what `next` said, so a fixed
    /// rate with a tolerance does not drift.
    fn tolerance(&self) -> Option<Duration> {
        None
    }

    /// Whether a run may come at `due`, which the last run has [decided](NextRun) itself. If not, the job is done. The default
    /// is `true`; [`times`](Self::times) counts such runs, and [`until`](Self::until) looks at `due`.
    fn admits(&mut self, due: Instant) -> bool {
        _ = due;
        true
    }

    /// Whether the run that is about to begin is left out, such as one that comes too late to be of use. The default is
    /// `false`.
    ///
    /// The job's task calls this at the beginning of each run that the schedule itself has planned. It does not call it
    /// for a run that the job's user has moved, or whose time the last run has [decided](NextRun). A run that is
    /// left out does not call the job's closure and does not count as a run. The task asks for the [`next`](Self::next)
    /// run at once. A run that came in time and then waited for a [place](crate::Jobs::with_concurrency) is not left out.
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
    /// use timingwheel_jobs::{JobsExt, LastRun, Schedule};
    /// use tokio::time::Instant;
    ///
    /// /// Every minute, but only where that is within ten seconds of its time.
    /// struct Punctual(Instant);
    ///
    /// impl Schedule for Punctual {
    ///     fn next(&mut self, last: LastRun) -> Option<Instant> {
    ///         self.0 = last.due + Duration::from_secs(60);
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

    /// Gives the schedule a [`PendingRun`], by which it can move the run that the job waits for. The maker of the job calls
    /// this once, after the first call of [`next`](Self::next).
    ///
    /// Hidden, because the calendar alone needs it, when somebody sets the wall clock.
    #[doc(hidden)]
    fn attach(&mut self, run: PendingRun) {
        drop(run);
    }

    /// This schedule for at most `runs` runs, whether the schedule or the run before says when they are due. A run that is
    /// [left out](Self::leaves_out) is one of them. A [reset](crate::Job::reset) during the last run adds one.
    fn times(self, runs: u64) -> Limited<Self>
    where
        Self: Sized,
    {
        Limited { left: Some(runs), ..Limited::new(self) }
    }

    /// This schedule for the runs that are due by `end`, whether the schedule or the run before says when they are due.
    fn until(self, end: Instant) -> Limited<Self>
    where
        Self: Sized,
    {
        Limited { end: Some(end), ..Limited::new(self) }
    }

    /// This schedule with runs that may be late, so that they begin together with others that are due at about the same
    /// time, and cost less among very many.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](timingwheel::TimingWheel#precision)), whichever is more. See
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
    fn with_tolerance(self, tolerance: Duration) -> Limited<Self>
    where
        Self: Sized,
    {
        Limited { tolerance: Some(tolerance), ..Limited::new(self) }
    }
}

/// The run before the one that a [`Schedule`] is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
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

impl LastRun {
    /// A run that was due, began and ended at `instant`. A schedule begins with it, and its tests need it.
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self { due: instant, started: instant, ended: instant, missed: false }
    }
}

impl<F: FnMut(LastRun) -> Option<Instant> + Send + 'static> Schedule for F {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self(last)
    }
}

impl Schedule for Box<dyn Schedule> {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        (**self).next(last)
    }

    fn tolerance(&self) -> Option<Duration> {
        (**self).tolerance()
    }

    fn admits(&mut self, due: Instant) -> bool {
        (**self).admits(due)
    }

    fn leaves_out(&mut self) -> bool {
        (**self).leaves_out()
    }

    fn attach(&mut self, run: PendingRun) {
        (**self).attach(run);
    }
}

/// An instant, or a delay from now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    At(Instant),
    After(Duration),
}

impl When {
    pub(crate) fn due(self, now: Instant) -> Instant {
        match self {
            Self::At(instant) => instant,
            Self::After(delay) => later(now, delay),
        }
    }
}

/// 30 years: a time that an [`Instant`] cannot hold is so much later, as tokio has it.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// A schedule with limits or a tolerance, from [`Schedule::times`] and its kin.
#[derive(Clone, Debug)]
pub struct Limited<S> {
    schedule: S,
    left: Option<u64>,
    end: Option<Instant>,
    tolerance: Option<Duration>,
}

impl<S> Limited<S> {
    const fn new(schedule: S) -> Self {
        Self { schedule, left: None, end: None, tolerance: None }
    }

    /// Counts a run, if there is one left.
    fn count(&mut self) -> Option<()> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        Some(())
    }
}

impl<S: Schedule> Schedule for Limited<S> {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.count()?;
        self.schedule.next(last).filter(|next| self.end.is_none_or(|end| *next <= end))
    }

    fn admits(&mut self, due: Instant) -> bool {
        self.end.is_none_or(|end| due <= end) && self.count().is_some() && self.schedule.admits(due)
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
/// schedule neither moves that run nor [leaves it out](Schedule::leaves_out).
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
/// assert_eq!(job.info().time_left(), Some(Duration::from_secs(4)));
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// assert_eq!(job.info().time_left(), Some(Duration::from_secs(3_599)));
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

impl From<()> for NextRun {
    fn from((): ()) -> Self {
        Self::BySchedule
    }
}

/// Makes the runs of a job that repeats: a closure that returns futures, whose outputs are `()` or a [`NextRun`].
pub trait MakeRun: Send + 'static {
    /// One run.
    type Run: Future<Output: Into<NextRun>> + Send + 'static;

    /// Makes the next run.
    fn make_run(&mut self) -> Self::Run;
}

impl<F, R> MakeRun for F
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output: Into<NextRun>> + Send + 'static,
{
    type Run = R;

    fn make_run(&mut self) -> R {
        self()
    }
}

/// An instant that an [`Instant`] cannot hold is 30 years later, as tokio has it.
pub(crate) fn later(instant: Instant, delay: Duration) -> Instant {
    instant.checked_add(delay).unwrap_or_else(|| instant + LONGEST)
}

/// The run that a repeating job waits for, from [`Schedule::attach`]. It does not keep the job alive.
///
/// Hidden, because the calendar alone needs it.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct PendingRun(pub(crate) Weak<dyn AnyJob>);

impl PendingRun {
    /// Changes the schedule's last answer to `next`: moves the run there, or ends the job if `next` is `None`. A run that the
    /// job's user has moved stays. This checks for a user's move and moves the run under one lock, so no reset is lost.
    ///
    /// # Panics
    /// If this ends the job, and dropping what the job runs or its schedule panics.
    pub fn replan(&self, next: Option<Instant>) -> Replanned {
        self.0.upgrade().map_or(Replanned::NotPending, |job| job.replan(next))
    }
}

/// The result of a [`PendingRun::replan`]. Hidden, because the calendar alone needs it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replanned {
    /// The job waits for the new instant, or is over as there is none.
    Done,
    /// The job's user has moved the run. It stays where it is.
    MovedByUser,
    /// Nothing has changed, as there is no run to move: one is going on or about to begin, the job is over, or it is being
    /// made.
    NotPending,
}
