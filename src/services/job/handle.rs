//! The handle of a job.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::task::coop;
use tokio::time::Instant;

use super::error::JobError;
use super::state::{JobInfo, JobState};
use super::when::When;
use crate::platform::clock::Clock;

/// A job that runs once, from [`TimingWheel::run_after`](crate::TimingWheel::run_after) and its kin.
///
/// As a future it is ready when the job is over, with the job's output. It may be awaited in any runtime or executor,
/// and `&mut job` too: it is `Unpin`. It spends a unit of tokio's cooperative budget, as a `JoinHandle` does. Dropping
/// it does not cancel the job, unless [asked to](Self::cancel_on_drop).
///
/// # Cancel safety
/// A wait by `&mut job` that is dropped loses nothing.
///
/// # Errors
/// As a future: if the job was cancelled, panicked, or could not run.
///
/// # Panics
/// If it is polled again after it was ready.
pub struct Job<T> {
    record: Arc<dyn Handled<T>>,
    cancel_on_drop: bool,
    /// Whether it was polled, so that the record may have a waker.
    is_awaited: bool,
    /// Whether it has given its result.
    has_told: bool,
}

/// What a handle does with its job, whatever the type of its future.
pub(super) trait Handled<T>: Send + Sync {
    fn info(&self) -> JobInfo;
    fn clock(&self) -> &Clock;
    /// Moves a job that is pending, and tells whether it is after that.
    fn reset(self: Arc<Self>, when: When) -> bool;
    /// Tells how it found the job: if pending, it is cancelled; if running, no run comes after this one.
    fn cancel(&self) -> JobInfo;
    fn poll_result(&self, cx: &mut Context<'_>) -> Poll<Result<T, JobError>>;
    /// Drops the waker of the task that awaited the result.
    fn forget_waiter(&self);
}

impl<T> Job<T> {
    pub(super) const fn of(record: Arc<dyn Handled<T>>) -> Self {
        Self { record, cancel_on_drop: false, is_awaited: false, has_told: false }
    }

    /// Where the job stands.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.record.info().state
    }

    /// When the job is due, as long as it is pending; when it was to run, if it waited for that and could not.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.record.info().due
    }

    /// Moves the job to `deadline`, and tells whether that was in time: it was pending, and runs then, once. Otherwise it
    /// has begun or is over, or begins now, and nothing has changed.
    ///
    /// Moved later, its timer stays where it is in the wheel until that place comes up, so this is cheap enough to be
    /// called for each message of a session. A job keeps its place on a wheel with a bound; but if its timer is just
    /// coming due it needs another one, and if there is none, this is too late.
    ///
    /// # Precision
    /// As [`run_after`](crate::TimingWheel::run_after). Moved to an instant that has passed, it is spawned after a tick,
    /// or after a millisecond if that is shorter, and no later than it would have been.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
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
        self.record.clone().reset(When::at(deadline, self.record.clock()))
    }

    /// Moves the job to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [583 years](crate::Sleep::deadline) it never runs.
    pub fn reset_after(&self, after: Duration) -> bool {
        self.record.clone().reset(When::after(after, self.record.clock()))
    }

    /// Cancels the job, and tells whether that was in time: then it never runs, and what it would have run is dropped
    /// by this call. A job that has begun goes on.
    ///
    /// # Panics
    /// If dropping the job's future does.
    pub fn cancel(&self) -> bool {
        self.record.cancel().state == JobState::Pending
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
        let budget = ready!(coop::poll_proceed(cx));
        self.is_awaited = true;
        let result = self.record.poll_result(cx);
        if result.is_ready() {
            budget.made_progress();
            self.has_told = true;
        }
        result
    }
}

impl<T> FusedFuture for Job<T> {
    /// Whether it has given its result.
    fn is_terminated(&self) -> bool {
        self.has_told
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if self.is_awaited {
            self.record.forget_waiter();
        }
        if self.cancel_on_drop {
            self.record.cancel();
        }
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, cancel_on_drop, is_awaited: _, has_told: _ } = self;
        let JobInfo { state, due } = record.info();
        f.debug_struct("Job")
            .field("state", &state)
            .field("due", &due)
            .field("cancel_on_drop", cancel_on_drop)
            .finish()
    }
}
