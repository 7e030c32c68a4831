//! Making jobs that run once.

use std::time::Duration;

use tokio::time::Instant;

use super::error::TryRunError;
use super::handle::Job;
use super::record::Record;
use super::when::When;
use super::work::Once;
use crate::handle::timing_wheel::TimingWheel;

impl TimingWheel {
    /// Runs `future` after `delay` from now, in a task of its own on the wheel's runtime. With a `delay` of more than
    /// [583 years](crate::Sleep::deadline) the job never runs.
    ///
    /// For a closure, `async move { f() }`.
    ///
    /// # Precision
    /// The task is spawned when a [`sleep`](Self::sleep) would be ready: never early, and as late as
    /// [precision](Self#precision) says. A job that is due already is spawned at once if the caller is on the wheel's
    /// runtime. For a caller elsewhere it is spawned after a tick, or after a millisecond if that is shorter.
    ///
    /// # Errors
    /// This call returns none. If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are
    /// pending, `future` is dropped, and the handle says so when it is awaited. Where nobody keeps the handle, use
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
    /// use timingwheel::{TimingWheel, job::JobState};
    ///
    /// let wheel = TimingWheel::new();
    /// let mut job = wheel.run_after(Duration::from_secs(10), async { 6 * 7 });
    /// assert_eq!(job.state(), JobState::Pending);
    /// assert_eq!((&mut job).await.unwrap(), 42);
    /// assert_eq!(job.state(), JobState::Done);
    /// assert!(!job.cancel(), "too late");
    /// # }
    /// ```
    pub fn run_after<F>(&self, delay: Duration, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Job::of(Record::launch_or_tell(self, self.after_now(delay), Once(future)))
    }

    /// Runs `future` at `instant`, as [`run_after`](Self::run_after) does. If that has passed, the job runs at once.
    pub fn run_at<F>(&self, instant: Instant, future: F) -> Job<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Job::of(Record::launch_or_tell(self, self.when(instant), Once(future)))
    }

    /// As [`run_after`](Self::run_after), but returns an error at once, with `future` in it, if the job cannot run.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    /// let delay = Duration::from_secs(1);
    /// let _first = wheel.try_run_after(delay, async { "first" }).unwrap();
    /// let refused = wheel.try_run_after(delay, async { "second" }).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "the timing wheel refused one more timer: 1 are pending, and its max_pending is 1"
    /// );
    /// assert_eq!(refused.into_inner().await, "second");
    /// # }
    /// ```
    pub fn try_run_after<F>(&self, delay: Duration, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        try_run(self, self.after_now(delay), future)
    }

    /// As [`run_at`](Self::run_at), but returns an error at once, with `future` in it, if the job cannot run.
    ///
    /// # Errors
    /// As [`try_run_after`](Self::try_run_after).
    pub fn try_run_at<F>(&self, instant: Instant, future: F) -> Result<Job<F::Output>, TryRunError<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        try_run(self, self.when(instant), future)
    }
}

fn try_run<F>(wheel: &TimingWheel, when: When, future: F) -> Result<Job<F::Output>, TryRunError<F>>
where
    F: Future<Output: Send> + Send + 'static,
{
    match Record::launch(wheel, when, Once(future)) {
        Ok(record) => Ok(Job::of(record)),
        Err((error, Once(future))) => Err(TryRunError::new(error, future)),
    }
}
