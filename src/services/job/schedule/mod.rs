//! When a job runs: one method, from the run before to the next.

mod fixed;
mod limits;
mod on_reset;

use tokio::time::Instant;

use super::pending_run::PendingRun;
pub use fixed::{FixedDelay, FixedRate};
pub use limits::{Times, Tolerant, Until};
pub use on_reset::OnReset;

use crate::timers::tolerance::Tolerance;

/// When the runs of a job are due. As in Go's `timingwheel`, a schedule computes the next run from the previous one.
///
/// [`FixedRate`], [`FixedDelay`] and [`OnReset`] are built in. Any other schedule is an `impl` of this trait, or a
/// closure from [`Previous`] to `Option<Instant>`. [`times`](Self::times) and [`until`](Self::until) end a schedule
/// early. [`with_tolerance`](Self::with_tolerance) lets its runs be late.
///
/// # Panics
/// A `next` that panics ends its job, as a run that panics does. The first call is made by whoever makes the job, and
/// panics there. The same holds for `tolerance`.
///
/// # Examples
///
/// Back-off with jitter, for a job that tries again and again until it is [cancelled](super::Repeating::cancel):
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel::job::{Previous, Schedule};
/// use tokio::time::Instant;
///
/// /// Waits twice as long after each run, up to a limit, and up to a half longer by chance.
/// struct Backoff {
///     wait: Duration,
///     limit: Duration,
/// }
///
/// impl Schedule for Backoff {
///     fn next(&mut self, previous: Previous) -> Option<Instant> {
///         let wait = self.wait.mul_f64(1.0 + 0.5 * fastrand::f64());
///         self.wait = (2 * self.wait).min(self.limit);
///         Some(previous.ended + wait)
///     }
/// }
///
/// let wheel = TimingWheel::new();
/// let backoff = Backoff { wait: Duration::from_millis(100), limit: Duration::from_secs(60) };
/// let tries = wheel.run_by(backoff.times(5), || async { /* Try. */ });
/// assert_eq!(tries.await.unwrap(), 5);
/// # }
/// ```
///
/// A calendar in wall-clock time, in which every day has 24 hours. The crate `timingwheel-calendar` has schedules for
/// time zones, and for the days on which clocks are moved. Those follow the wall clock even when somebody sets it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// use timingwheel::TimingWheel;
/// use timingwheel::job::{Previous, Schedule};
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
    fn tolerance(&self) -> Option<Tolerance> {
        None
    }

    /// Gives the schedule a [`PendingRun`], which can move the run that the job waits for. The default drops it.
    ///
    /// A schedule may learn something while its job waits, such as that the wall clock was set. Then it moves the run to
    /// another instant: by [`PendingRun::replan`], unless the job's user has moved it, or by [`PendingRun::reset`] in any
    /// case. This is called once for each job that gets the schedule, by whoever makes the job, after the first call of
    /// [`next`](Self::next) and before the job waits.
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
    /// use timingwheel::job::{PendingRun, Previous, Schedule};
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
    /// asked.lock().unwrap().as_ref().unwrap().reset(start + Duration::from_secs(5));
    /// assert_eq!(job.await.unwrap(), 1);
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # }
    /// ```
    fn attach(&mut self, run: PendingRun) {
        drop(run);
    }

    /// This schedule for at most `runs` runs.
    fn times(self, runs: u64) -> Times<Self>
    where
        Self: Sized,
    {
        Times::new(self, runs)
    }

    /// This schedule for the runs that are due by `end`.
    fn until(self, end: Instant) -> Until<Self>
    where
        Self: Sized,
    {
        Until::new(self, end)
    }

    /// This schedule with runs that may be late, so that they begin together with others that are due at about the same
    /// time, and cost less among very many. A share is a part of the time from the end of a run to the next run.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more. See [`Tolerance`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::job::{FixedRate, Schedule};
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let minutely = FixedRate::new(Duration::from_secs(60)).with_tolerance(Tolerance::share(0.125));
    /// assert_eq!(wheel.run_by(minutely.times(61), || async {}).await.unwrap(), 61);
    /// let late = start.elapsed() - Duration::from_secs(3_600);
    /// assert!(late < Duration::from_secs(60) / 8, "it does not add up");
    /// # }
    /// ```
    fn with_tolerance(self, tolerance: Tolerance) -> Tolerant<Self>
    where
        Self: Sized,
    {
        Tolerant::new(self, tolerance)
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
    /// Whether it began so late that an [`Interval`](crate::Interval) would call its tick missed: more than 5 ms after
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

    fn tolerance(&self) -> Option<Tolerance> {
        (**self).tolerance()
    }

    fn attach(&mut self, run: PendingRun) {
        (**self).attach(run);
    }
}
