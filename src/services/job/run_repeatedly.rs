//! Making jobs that run again and again.

use std::time::Duration;

use tokio::time::Instant;

use super::error::TryRunError;
use super::handle::Repeating;
use super::record::Record;
use super::schedule::{FixedRate, Schedule};
use super::when::When;
use super::work::Repeat;
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;

impl TimingWheel {
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
    pub fn run_every<F, R>(&self, period: Duration, make: F) -> Repeating
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
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
    /// use tokio::time::Instant;
    ///
    /// let period = Duration::from_secs(10);
    /// let job = TimingWheel::new().run_every_at(Instant::now() + period, period, || async {});
    /// assert_eq!(job.time_left(), Some(period));
    /// # }
    /// ```
    #[track_caller]
    pub fn run_every_at<F, R>(&self, start: Instant, period: Duration, make: F) -> Repeating
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
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
    /// As [`run_after`](Self::run_after). On a wheel with a bound the job needs a permit, even if its first run is due
    /// at once. The job keeps the permit until it is over, so it is never refused between runs.
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
            Ok(repeat) => Record::launch_or_tell(self, self.first_run(&repeat), repeat),
            Err(_make) => Record::<Repeat<F>>::over(self, Ok(0)),
        };
        Repeating::of(record)
    }

    /// As [`run_every`](Self::run_every), but returns an error at once, with `make` in it, if the job cannot run.
    ///
    /// # Errors
    /// As [`try_run_by`](Self::try_run_by).
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn try_run_every<F, R>(&self, period: Duration, make: F) -> Result<Repeating, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
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
    pub fn try_run_every_at<F, R>(
        &self,
        start: Instant,
        period: Duration,
        make: F,
    ) -> Result<Repeating, TryRunError<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.try_run_by(FixedRate::new(period).starting_at(start), make)
    }

    /// As [`run_by`](Self::run_by), but returns an error at once, with `make` in it, if the job cannot run.
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
            Ok(repeat) => match Record::launch(self, self.first_run(&repeat), repeat) {
                Ok(record) => Ok(Repeating::of(record)),
                Err((error, repeat)) => Err(TryRunError::new(error, repeat.make)),
            },
            Err(make) if self.is_ended() => Err(TryRunError::new(Error::shutdown(), make)),
            Err(_make) => Ok(Repeating::of(Record::<Repeat<F>>::over(self, Ok(0)))),
        }
    }

    /// What a job does by `schedule`. Gives `make` back if there is not even a first run.
    pub(super) fn repeat<F>(&self, schedule: impl Schedule, make: F) -> Result<Repeat<F>, F> {
        let shard = self.shard();
        Repeat::new(Box::new(schedule), make, *shard.clock(), shard.resolution())
    }

    pub(super) fn first_run<F>(&self, repeat: &Repeat<F>) -> When {
        self.when(repeat.due).within(repeat.slack)
    }
}
