//! The handles of jobs.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{JobError, Kind};
use crate::info::JobInfo;
use crate::record::AnyJob;
use crate::schedule::When;

/// A job, from [`run_after`](crate::JobsExt::run_after) and its kin, or a [`Repeating`] one from
/// [`run_by`](crate::JobsExt::run_by) and its kin.
///
/// As a future it is ready when the job is over. It returns the job's output. The output of a repeating job is the
/// number of runs, and is there when the schedule has come to its end. The handle may be awaited in any runtime or
/// executor. It is `Unpin`, so `&mut job` may be awaited too. It spends a unit of tokio's cooperative budget, as a
/// `JoinHandle` does. Dropping the handle does not cancel the job, unless it was made to
/// [cancel on drop](Self::cancel_on_drop).
///
/// # Cancel safety
/// A dropped wait by `&mut job` loses nothing.
///
/// # Errors
/// As a future: if the job was cancelled or aborted, if it, or a repeating job's schedule, panicked, or if it could not run
/// to its end.
///
/// # Panics
/// If the handle is polled again after it was ready.
pub struct Job<T> {
    pub(crate) record: Arc<dyn AnyJob>,
    /// Gone once it was told.
    pub(crate) result: Option<oneshot::Receiver<Result<T, JobError>>>,
    pub(crate) cancel_on_drop: bool,
}

impl<T> Job<T> {
    /// Where the job stands, and when it is due.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::{JobState, JobsExt};
    ///
    /// let job = TimingWheel::new().run_after(Duration::from_secs(60), async {});
    /// tokio::time::advance(Duration::from_secs(15)).await;
    /// assert_eq!(job.info().time_left(), Some(Duration::from_secs(45)));
    /// job.cancel();
    /// assert_eq!(job.info().state, JobState::Cancelled);
    /// # }
    /// ```
    #[must_use]
    pub fn info(&self) -> JobInfo {
        self.record.info()
    }

    /// Moves the job to `deadline`, and returns whether that was in time. If so, the job was pending, and runs once, at
    /// `deadline`. Otherwise nothing has changed: the job has begun, is over, begins now, or is due and
    /// [waits for a place](crate::Jobs::with_concurrency).
    ///
    /// For a repeating job this moves the next run, and the schedule goes on from `deadline`, or from now if that has
    /// passed. During a run it moves the run that follows, even if the schedule has no further run. The schedule is still
    /// asked as usual at the end of the run that is going on, but this answer does not count. It is asked again at the end
    /// of the run that was moved.
    ///
    /// A job that is moved later leaves its timer where it is in the wheel until that place comes up, so this is cheap
    /// enough to be called for each message of a session. A job keeps its permit on a wheel with a bound. There is one
    /// exception: if the timer is just coming due, the job needs another permit. If there is none, the reset is too
    /// late, and the job begins. If two threads move a job at the same time, the last move counts.
    ///
    /// # Precision
    /// As [`run_after`](crate::JobsExt::run_after). A job that is moved to an instant that has passed is spawned
    /// at once if the caller is on the wheel's runtime, and otherwise after a millisecond.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::JobsExt;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let mut job = wheel.run_after(Duration::from_secs(60), async { Instant::now() });
    /// assert!(job.reset(start + Duration::from_secs(90)));
    /// assert_eq!((&mut job).await.unwrap(), start + Duration::from_secs(90));
    /// assert!(!job.reset(start + Duration::from_secs(120)), "it has run");
    /// # }
    /// ```
    pub fn reset(&self, deadline: Instant) -> bool {
        self.record.clone().reset(When::At(deadline))
    }

    /// Moves the job to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](timingwheel::Sleep::deadline) it never runs.
    pub fn reset_after(&self, after: Duration) -> bool {
        self.record.clone().reset(When::After(after))
    }

    /// Cancels the job and returns whether that was in time. Then the job never runs, and this call drops its future. A
    /// job that has begun goes on.
    ///
    /// Of a job that repeats, no further run begins. A run that is going on goes on to its end, and the handle then gives an
    /// error that [is cancelled](JobError::is_cancelled).
    ///
    /// # Panics
    /// If dropping the job's future does.
    pub fn cancel(&self) -> bool {
        self.record.cancel().is_changed
    }

    /// Cancels the job if it is pending, and aborts it if it runs. Returns whether it did either: not if the job was
    /// over, or had been aborted before.
    ///
    /// An aborted job ends where it waits next: its task drops its future there, and the handle gives an error that
    /// [is cancelled](JobError::is_cancelled). If the last poll of its future is going on, the future comes to its end, and
    /// its output is dropped.
    ///
    /// # Panics
    /// If the job is pending, and dropping its future panics.
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
    /// let job = TimingWheel::new().run_after(Duration::from_secs(1), std::future::pending::<()>());
    /// tokio::time::sleep(Duration::from_secs(2)).await;
    /// assert!(!job.cancel(), "it has begun");
    /// assert!(job.abort());
    /// assert!(job.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    pub fn abort(&self) -> bool {
        self.record.abort().is_changed
    }

    /// Cancels the job when this handle is dropped, if that is in time.
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
    /// let wheel = TimingWheel::new();
    /// let job = wheel.run_after(Duration::from_secs(1), async { unreachable!() }).cancel_on_drop();
    /// assert_eq!(wheel.pending(), 1);
    /// drop(job);
    /// assert_eq!(wheel.pending(), 0);
    /// # }
    /// ```
    #[must_use = "the job is cancelled when this is dropped"]
    pub const fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }
}

impl<T> Future for Job<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(result) = &mut self.result else {
            panic!("a job's handle was polled again after its result")
        };
        let told = ready!(Pin::new(result).poll(cx));
        self.result = None;
        Poll::Ready(told.unwrap_or(Err(JobError(Kind::Cancelled))))
    }
}

impl<T> FusedFuture for Job<T> {
    /// Whether it has given its result.
    fn is_terminated(&self) -> bool {
        self.result.is_none()
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if self.cancel_on_drop {
            self.record.cancel();
        }
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("info", &self.record.info()).finish_non_exhaustive()
    }
}

/// A job that runs again and again. Its output is the number of runs.
pub type Repeating = Job<u64>;
