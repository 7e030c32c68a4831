//! The handle of a job that runs once.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::task::coop;
use tokio::time::Instant;

use super::Handled;
use crate::services::job::error::JobError;
use crate::services::job::info::{JobInfo, JobState};
use crate::services::job::when::When;
use crate::timers::tolerance::{Slack, Tolerance};

/// A job that runs once, from [`TimingWheel::run_after`](crate::TimingWheel::run_after) and its kin.
///
/// As a future it is ready when the job is over, with the job's output. It may be awaited in any runtime or executor,
/// as `&mut job` too: it is `Unpin`. It spends a unit of tokio's cooperative budget, as a `JoinHandle` does. Dropping
/// the handle does not cancel the job, unless it was made to [cancel on drop](Self::cancel_on_drop).
///
/// # Cancel safety
/// A dropped wait by `&mut job` loses nothing.
///
/// # Errors
/// As a future: if the job was cancelled or aborted, panicked, or could not run.
///
/// # Panics
/// If the handle is polled again after it was ready.
pub struct Job<T> {
    record: Arc<dyn Handled<T>>,
    /// How late the job may be: here, so that a job takes no memory for it.
    slack: Slack,
    cancel_on_drop: bool,
    /// Whether it was polled, so that the record may have a waker.
    is_awaited: bool,
    /// Whether it has given its result.
    has_told: bool,
}

impl<T> Job<T> {
    pub(in crate::services::job) const fn of(record: Arc<dyn Handled<T>>) -> Self {
        Self { record, slack: Slack::None, cancel_on_drop: false, is_awaited: false, has_told: false }
    }

    /// Where the job stands.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.record.info().state
    }

    /// When the job is due, while it is pending. For a job that waited and could not run: when it was due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.record.info().due
    }

    /// How long from now until the job is due, while it is pending: zero if it is about to begin, `None` if it has
    /// begun or is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let job = TimingWheel::new().run_after(Duration::from_secs(60), async {});
    /// tokio::time::advance(Duration::from_secs(15)).await;
    /// assert_eq!(job.time_left(), Some(Duration::from_secs(45)));
    /// job.cancel();
    /// assert_eq!(job.time_left(), None);
    /// # }
    /// ```
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let JobInfo { state, due } = self.record.info();
        let now = || self.record.clock().now_as_instant();
        due.filter(|_| state == JobState::Pending).map(|due| due.saturating_duration_since(now()))
    }

    /// Lets the job be late, so that it begins together with others that are due at about the same time, and costs less
    /// among very many: see [`Tolerance`]. A share is a part of the time that is left.
    ///
    /// [`due`](Self::due) then tells the instant to which the due time was rounded up. A [`reset`](Self::reset) keeps
    /// the tolerance. A job that has begun is not changed.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::time::Instant;
    ///
    /// let minute = Duration::from_secs(60);
    /// let start = Instant::now();
    /// let job = TimingWheel::new().run_after(minute, async { Instant::now() });
    /// let ran = job.with_tolerance(Tolerance::time(Duration::from_secs(5))).await.unwrap();
    /// assert!(ran >= start + minute);
    /// assert!(ran < start + minute + Duration::from_secs(5));
    /// # }
    /// ```
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.slack = Slack::new(tolerance, self.record.resolution());
        self.record.clone().let_be_late(self.slack);
        self
    }

    /// Moves the job to `deadline`, and returns whether that was in time. If so, the job was pending, and runs once, at
    /// `deadline`. Otherwise nothing has changed: the job has begun, is over, or begins now.
    ///
    /// A job runs once. A job that is to be armed again after it has fired repeats: see
    /// [`OnReset`](crate::job::OnReset).
    ///
    /// A job that is moved later leaves its timer where it is in the wheel until that place comes up, so this is cheap
    /// enough to be called for each message of a session. A job keeps its permit on a wheel with a bound. There is one
    /// exception: if the timer is just coming due, the job needs another permit. If there is none, the reset is too
    /// late.
    ///
    /// # Precision
    /// As [`run_after`](crate::TimingWheel::run_after). A job that is moved to an instant that has passed is spawned
    /// after a tick, or after a millisecond if that is shorter, and no later than it would have been.
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
        self.record.clone().reset(When::at(deadline, self.record.clock()).within(self.slack))
    }

    /// Moves the job to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [583 years](crate::Sleep::deadline) it never runs.
    pub fn reset_after(&self, after: Duration) -> bool {
        self.record.clone().reset(When::after(after, self.record.clock()).within(self.slack))
    }

    /// Cancels the job and returns whether that was in time. Then the job never runs, and this call drops its future. A
    /// job that has begun goes on.
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
    /// [is cancelled](JobError::is_cancelled). A job whose last poll is going on comes to its end.
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

    /// Cancels the job and gives its future back if that was in time; `None` if the job has begun or is over.
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
    /// let flush = wheel.run_after(Duration::from_secs(60), async { "flushed" });
    /// // The program ends before that: flush now.
    /// if let Some(future) = flush.take() {
    ///     assert_eq!(future.await, "flushed");
    /// }
    /// assert!(flush.await.unwrap_err().is_cancelled());
    /// # }
    /// ```
    #[must_use = "the future is dropped otherwise, as by `cancel`"]
    pub fn take(&self) -> Option<Pin<Box<dyn Future<Output = T> + Send>>> {
        self.record.take()
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
        let Self { record, slack: _, cancel_on_drop, is_awaited: _, has_told: _ } = self;
        let JobInfo { state, due } = record.info();
        f.debug_struct("Job")
            .field("state", &state)
            .field("due", &due)
            .field("cancel_on_drop", cancel_on_drop)
            .finish()
    }
}
