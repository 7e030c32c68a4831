//! The methods that make jobs, which a wheel gets by [`JobsExt`].

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::built_in::FixedRate;
use crate::error::TryRunError;
use crate::handle::{Job, Repeating};
use crate::record::Record;
use crate::schedule::{MakeRun, Schedule};
use crate::task::{First, Once, Repeat, Work};

/// Jobs of a [`TimingWheel`]: code that runs later, in a task of its own.
///
/// Import it to call its methods on a wheel. The [crate's page](crate) tells what becomes of a job.
pub trait JobsExt {
    #[doc(hidden)]
    fn wheel(&self) -> &TimingWheel;

    /// Runs `future` after `delay` from now, in a task of its own on the wheel's runtime. With a `delay` of more than
    /// [292 years](timingwheel::Sleep::deadline) the job never runs.
    ///
    /// For a closure, `async move { f() }`.
    ///
    /// # Precision
    /// The task is spawned when a [`sleep`](TimingWheel::sleep) would be ready: never early, and as late as
    /// [precision](TimingWheel#precision) says. A job that is due already is spawned at once if the caller is on the
    /// wheel's runtime. For a caller elsewhere the wheel spawns it, as after a sleep of 1 ms.
    ///
    /// # Errors
    /// This call returns none. If the wheel has ended, or if its [`max_pending`](timingwheel::Builder::max_pending) timers
    /// are pending and the job needs one, `future` is dropped, and the handle says so when it is awaited. Where nobody keeps the handle, use
    /// [`try_run_after`](Self::try_run_after), which returns an error with the future.
    ///
    /// # Panics
    /// If the job is refused, and dropping `future` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobsExt, JobState};
    ///
    /// let wheel = TimingWheel::new();
    /// let mut job = wheel.run_after(Duration::from_secs(10), async { 6 * 7 });
    /// assert_eq!(job.info().state, JobState::Pending);
    /// assert_eq!((&mut job).await.unwrap(), 42);
    /// assert_eq!(job.info().state, JobState::Done);
    /// assert!(!job.cancel(), "too late");
    /// # }
    /// ```
    fn run_after<F>(&self, delay: Duration, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        launch(self.wheel(), Once::new(self.wheel().sleep(delay), future)).0
    }

    /// Runs `future` at `instant`, as [`run_after`](Self::run_after) does. If that has passed, the job runs at once.
    fn run_at<F>(&self, instant: Instant, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        launch(self.wheel(), Once::new(self.wheel().sleep_until(instant), future)).0
    }

    /// As [`run_after`](Self::run_after), but returns an error at once, with `future` in it, if the job cannot run.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](timingwheel::Builder::max_pending) timers are pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::JobsExt;
    ///
    /// let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    /// let delay = Duration::from_secs(1);
    /// let _first = wheel.try_run_after(delay, async { "first" }).unwrap();
    /// let refused = wheel.try_run_after(delay, async { "second" }).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     format!("the job could not run: the wheel {:?} is full (max_pending = 1)", wheel.name())
    /// );
    /// assert_eq!(refused.into_inner().await, "second");
    /// # }
    /// ```
    fn try_run_after<F>(&self, delay: Duration, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tried(launch(self.wheel(), Once::new(self.wheel().sleep(delay), future)))
    }

    /// As [`run_at`](Self::run_at), but returns an error at once, with `future` in it, if the job cannot run.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    fn try_run_at<F>(&self, instant: Instant, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tried(launch(self.wheel(), Once::new(self.wheel().sleep_until(instant), future)))
    }

    /// Runs a new future from `make` at once, and then every `period`: [`run_by`](Self::run_by) with a [`FixedRate`].
    ///
    /// # Errors
    /// As [`run_by`](Self::run_by).
    ///
    /// # Panics
    /// If `period` is zero. If the job is refused, and dropping `make` does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::JobsExt;
    /// use tokio::{sync::mpsc, time::Instant};
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let (sender, mut beats) = mpsc::unbounded_channel();
    /// let heartbeat = wheel.run_every(Duration::from_secs(10), move || {
    ///     let _ = sender.send(Instant::now() - start);
    ///     async {}
    /// });
    /// assert_eq!(beats.recv().await, Some(Duration::ZERO));
    /// assert_eq!(beats.recv().await, Some(Duration::from_secs(10)));
    /// heartbeat.cancel();
    /// # }
    /// ```
    #[track_caller]
    fn run_every<F: MakeRun>(&self, period: Duration, make: F) -> Repeating {
        self.run_by(FixedRate::new(period), make)
    }

    /// Runs a new future from `make` at `start`, and then every `period`, as [`run_every`](Self::run_every) does. If
    /// `start` has passed, the first run begins at once.
    ///
    /// # Errors
    /// As [`run_by`](Self::run_by).
    ///
    /// # Panics
    /// As [`run_every`](Self::run_every).
    ///
    /// # Examples
    ///
    /// A job that begins a period from now:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::JobsExt;
    /// use tokio::time::Instant;
    ///
    /// let period = Duration::from_secs(10);
    /// let job = TimingWheel::new().run_every_at(Instant::now() + period, period, || async {});
    /// assert_eq!(job.info().time_left(), Some(period));
    /// # }
    /// ```
    #[track_caller]
    fn run_every_at<F: MakeRun>(&self, start: Instant, period: Duration, make: F) -> Repeating {
        self.run_by(FixedRate::new(period).starting_at(start), make)
    }

    /// Runs a new future from `make` whenever `schedule` says, each in a task of its own on the wheel's runtime.
    ///
    /// There is one run at a time. When a run has ended, the schedule is asked when the next is due. If that time has
    /// passed, the next run begins at once: the schedule decides what becomes of missed runs. A run that panics ends
    /// the job. To go on after a panic, let the run spawn its work as a task, and await that task.
    ///
    /// # Precision
    /// Each run as [`run_after`](Self::run_after).
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after). While a run goes on, the job has no place on the wheel. So on a wheel with a bound
    /// the next run may be refused: then the job is over, and its handle says that it could not run.
    ///
    /// # Panics
    /// If the schedule panics when it is asked for the first run. If the job is refused or has no run, and dropping
    /// `make` or `schedule` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobsExt, LastRun, Schedule};
    ///
    /// let wheel = TimingWheel::new();
    /// let every_second = |last: LastRun| Some(last.due + Duration::from_secs(1));
    /// let runs = wheel.run_by(every_second.times(10), || async {}).await.unwrap();
    /// assert_eq!(runs, 10);
    /// # }
    /// ```
    fn run_by<F: MakeRun>(&self, schedule: impl Schedule, make: F) -> Repeating {
        launch(self.wheel(), Repeat::new(self.wheel(), schedule, make)).0
    }

    /// As [`run_every`](Self::run_every), but returns an error at once, with `make` in it, if the job cannot run.
    ///
    /// # Errors
    /// As [`try_run_by`](Self::try_run_by).
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    fn try_run_every<F: MakeRun>(&self, period: Duration, make: F) -> Result<Repeating, TryRunError<F>> {
        self.try_run_by(FixedRate::new(period), make)
    }

    /// As [`run_every_at`](Self::run_every_at), but returns an error at once, with `make` in it, if the job cannot run.
    ///
    /// # Errors
    /// As [`try_run_by`](Self::try_run_by).
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    fn try_run_every_at<F: MakeRun>(
        &self,
        start: Instant,
        period: Duration,
        make: F,
    ) -> Result<Repeating, TryRunError<F>> {
        self.try_run_by(FixedRate::new(period).starting_at(start), make)
    }

    /// As [`run_by`](Self::run_by), but returns an error at once, with `make` in it, if the job cannot run.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](timingwheel::Builder::max_pending) timers are pending.
    ///
    /// # Panics
    /// As [`run_by`](Self::run_by).
    fn try_run_by<F: MakeRun>(&self, schedule: impl Schedule, make: F) -> Result<Repeating, TryRunError<F>> {
        tried(launch(self.wheel(), Repeat::new(self.wheel(), schedule, make)))
    }
}

impl JobsExt for TimingWheel {
    fn wheel(&self) -> &TimingWheel {
        self
    }
}

/// A job with a handle; and its code in an error, if it was refused.
fn launch<W: Work>(
    wheel: &TimingWheel,
    (first, work): (First, W),
) -> (Job<W::Output>, Option<TryRunError<W::Given>>) {
    let (tell, told) = oneshot::channel();
    let record = Record::new(wheel, &first, (work, Some(tell)), ((), 0, None));
    let refused = record.start(first, || Ok(())).err();
    let refused = refused.map(|(refused, work)| TryRunError::new(refused, (), work.given()));
    (Job { record, result: Some(told), cancel_on_drop: false }, refused)
}

fn tried<J, E>((job, refused): (J, Option<E>)) -> Result<J, E> {
    refused.map_or(Ok(job), Err)
}
