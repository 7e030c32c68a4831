//! Jobs that run again and again.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::time::Instant;

use super::error::{JobError, TryRunError};
use super::handle::{Handled, Job};
use super::record::Record;
use super::repeat::Repeat;
use super::schedule::{FixedRate, Previous, Schedule};
use super::state::JobState;
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::interval::missed_after;

impl TimingWheel {
    /// Runs what `make` makes every `period`, the first time one period from now: [`run_by`](Self::run_by) a
    /// [`FixedRate`].
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
    /// use tokio::{sync::mpsc, time::Instant};
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let (sender, mut beats) = mpsc::unbounded_channel();
    /// let heartbeat = wheel.run_every(Duration::from_secs(10), move || {
    ///     let _ = sender.send(Instant::now() - start);
    ///     async {}
    /// });
    /// assert_eq!(beats.recv().await, Some(Duration::from_secs(10)));
    /// assert_eq!(beats.recv().await, Some(Duration::from_secs(20)));
    /// heartbeat.cancel();
    /// # }
    /// ```
    #[track_caller]
    pub fn run_every<F, R>(&self, period: Duration, make: F) -> Repeating
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.run_by(FixedRate::new(period), make)
    }

    /// Runs what `make` makes whenever `schedule` says, each run in a task of its own on the wheel's runtime.
    ///
    /// There is one run at a time. The next is due when the schedule says, which is asked when a run has ended: if that
    /// has passed, the next run begins at once. What runs were missed is the schedule's to decide. A run that panics
    /// ends the job; one that is to survive that has to catch it, as by a task that it spawns and awaits.
    ///
    /// # Precision
    /// Each run as [`run_after`](Self::run_after).
    ///
    /// # Errors
    /// As [`run_after`](Self::run_after). With a bound the job needs a place, also if its first run is due at once, and
    /// keeps that until it is over: between runs nothing refuses it.
    ///
    /// # Panics
    /// If the schedule does when it is asked for the first run. If the job is refused or has no run, and dropping
    /// `make` or `schedule` does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{Previous, Schedule};
    ///
    /// let wheel = TimingWheel::new();
    /// let every_second = |previous: Previous| Some(previous.due + Duration::from_secs(1));
    /// let runs = wheel.run_by(every_second.times(10), || async {}).await.unwrap();
    /// assert_eq!(runs, 10);
    /// # }
    /// ```
    pub fn run_by<F, R>(&self, schedule: impl Schedule, make: F) -> Repeating
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let record = match self.repeat(schedule, make) {
            Ok(repeat) => Record::launch_or_tell(self, self.when(repeat.due), repeat),
            Err(_make) => Record::<Repeat<F>>::over(self, Ok(0)),
        };
        Repeating::of(record)
    }

    /// As [`run_by`](Self::run_by), but refuses at once what could not run, and gives `make` back.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending.
    ///
    /// # Panics
    /// As [`run_by`](Self::run_by).
    pub fn try_run_by<F, R>(&self, schedule: impl Schedule, make: F) -> Result<Repeating, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        match self.repeat(schedule, make) {
            Ok(repeat) => match Record::launch(self, self.when(repeat.due), repeat) {
                Ok(record) => Ok(Repeating::of(record)),
                Err((error, repeat)) => Err(TryRunError::new(error, repeat.make)),
            },
            Err(make) if self.is_ended() => Err(TryRunError::new(Error::shutdown(), make)),
            Err(_make) => Ok(Repeating::of(Record::<Repeat<F>>::over(self, Ok(0)))),
        }
    }

    /// What a job does by `schedule`. Gives `make` back if there is not even a first run.
    pub(super) fn repeat<F>(&self, schedule: impl Schedule, make: F) -> Result<Repeat<F>, F> {
        let mut schedule: Box<dyn Schedule> = Box::new(schedule);
        let shard = self.shard();
        let clock = *shard.clock();
        match schedule.next(Previous::at(clock.now_as_instant())) {
            Some(due) => Ok(Repeat {
                schedule,
                make,
                due,
                runs: 0,
                missed_after: missed_after(shard.resolution().tick()),
                clock,
            }),
            None => Err(make),
        }
    }
}

/// A job that runs again and again, from [`TimingWheel::run_by`] and its kin.
///
/// As a future it is ready when the schedule has come to its end, with the number of runs. Dropping it does not cancel
/// the job, unless [asked to](Self::cancel_on_drop).
///
/// # Cancel safety
/// A wait by `&mut job` that is dropped loses nothing.
///
/// # Errors
/// As a future: if the job was cancelled, if a run or the schedule panicked, or if the job could not run to its end.
///
/// # Panics
/// If it is polled again after it was ready.
pub struct Repeating {
    job: Job<u64>,
    record: Arc<dyn Changed>,
}

trait Changed: Send + Sync {
    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool;
}

impl<F, R> Changed for Record<Repeat<F>>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        Self::set_schedule(&self, schedule)
    }
}

impl Repeating {
    fn of<F, R>(record: Arc<Record<Repeat<F>>>) -> Self
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let handled: Arc<dyn Handled<u64>> = record.clone();
        Self { job: Job::of(handled), record }
    }

    /// Where the job stands: running during a run, and pending before and between runs.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.job.state()
    }

    /// When the next run is due, as long as none is going on; when it was to be, if it could not.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.job.due()
    }

    /// Moves the next run to `deadline`, as [`Job::reset`] does. The schedule goes on from there. During a run there is
    /// none to move.
    pub fn reset(&self, deadline: Instant) -> bool {
        self.job.reset(deadline)
    }

    /// Moves the next run to `after` from now, as [`reset`](Self::reset) does.
    pub fn reset_after(&self, after: Duration) -> bool {
        self.job.reset_after(after)
    }

    /// Cancels the job, and tells whether that was in time: then no run begins any more. If a run is going on, that is
    /// too late: it goes on to its end, and is the last.
    ///
    /// # Panics
    /// If dropping what the job runs does.
    pub fn cancel(&self) -> bool {
        self.job.cancel()
    }

    /// Cancels the job when this handle is dropped.
    #[must_use = "the job is cancelled when this is dropped"]
    pub fn cancel_on_drop(mut self) -> Self {
        self.job = self.job.cancel_on_drop();
        self
    }

    /// Goes over to another schedule, and tells whether that was in time: if the job is over there is nothing to change.
    ///
    /// The job keeps its place on a wheel with a bound.
    ///
    /// The new schedule begins now, as that of a new job does. If a run is going on, it goes on, and what the new
    /// schedule says for the first run counts when it has ended, also if the old schedule, which is asked once more
    /// then, has come to its end. It is the new schedule that is called at once, by this call.
    ///
    /// # Panics
    /// If the new schedule does when it is asked for the first run; the old one stays then. Or if dropping the old one
    /// does, of a job that is pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{FixedRate, Schedule};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let job = wheel.run_every(Duration::from_secs(3_600), || async {});
    /// assert!(job.set_schedule(FixedRate::new(Duration::from_secs(1)).times(5)));
    /// assert_eq!(job.await.unwrap(), 5);
    /// assert_eq!(start.elapsed(), Duration::from_secs(5));
    /// # }
    /// ```
    pub fn set_schedule(&self, schedule: impl Schedule) -> bool {
        self.record.clone().set_schedule(Box::new(schedule))
    }
}

impl Future for Repeating {
    type Output = Result<u64, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.job).poll(cx)
    }
}

impl FusedFuture for Repeating {
    /// Whether it has given its result.
    fn is_terminated(&self) -> bool {
        self.job.is_terminated()
    }
}

impl fmt::Debug for Repeating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, record: _ } = self;
        f.debug_struct("Repeating").field("job", job).finish_non_exhaustive()
    }
}
