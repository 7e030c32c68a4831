//! The handle of a job that repeats.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::time::Instant;

use super::{Handled, Job, Scheduled};
use crate::services::job::error::JobError;
use crate::services::job::info::JobState;
use crate::services::job::schedule::Schedule;

/// A job that runs again and again, from [`TimingWheel::run_by`](crate::TimingWheel::run_by) and its kin.
///
/// As a future it is ready when the schedule has come to its end, with the number of runs. Dropping the handle does not
/// cancel the job, unless it was made to [cancel on drop](Self::cancel_on_drop).
///
/// # Cancel safety
/// A dropped wait by `&mut job` loses nothing.
///
/// # Errors
/// As a future: if the job was cancelled or aborted, if a run or the schedule panicked, or if the job could not run to
/// its end.
///
/// # Panics
/// If the handle is polled again after it was ready.
pub struct Repeating {
    job: Job<u64>,
    record: Arc<dyn Scheduled>,
}

impl Repeating {
    pub(in crate::services::job) fn of<R: Scheduled + 'static>(record: Arc<R>) -> Self {
        let handled: Arc<dyn Handled<u64>> = record.clone();
        Self { job: Job::of(handled), record }
    }

    /// Where the job stands: running during a run, and pending before and between runs.
    #[must_use]
    pub fn state(&self) -> JobState {
        self.job.state()
    }

    /// When the next run is due, while none is going on. For a job that waited and could not run: when it was due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.job.due()
    }

    /// How long from now until the next run is due, while none is going on: zero if it is about to begin, `None` during
    /// a run and when the job is over.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.job.time_left()
    }

    /// Moves the next run to `deadline`, and returns whether the run is due then. It returns `false` if the job is
    /// over, or was cancelled during the present run. The schedule goes on from `deadline`.
    ///
    /// During a run this moves the run that follows, even if the schedule has no further run. The schedule is asked
    /// again when that following run has ended. Before a run this costs as much as [`Job::reset`].
    ///
    /// # Precision
    /// As [`Job::reset`].
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
    /// let job = wheel.run_every_at(start + Duration::from_secs(60), Duration::from_secs(60), || async {});
    /// assert!(job.reset(start + Duration::from_secs(5)));
    /// tokio::time::sleep(Duration::from_secs(6)).await;
    /// assert_eq!(job.due(), Some(start + Duration::from_secs(65)));
    /// # }
    /// ```
    pub fn reset(&self, deadline: Instant) -> bool {
        self.job.reset(deadline)
    }

    /// Moves the next run to `after` from now, as [`reset`](Self::reset) does.
    pub fn reset_after(&self, after: Duration) -> bool {
        self.job.reset_after(after)
    }

    /// Cancels the job, and returns whether this call did so: not if the job is over, or was cancelled before. No
    /// further run begins. A run that is going on goes on to its end, and is the last. The handle then gives an error
    /// that [is cancelled](JobError::is_cancelled).
    ///
    /// # Panics
    /// If dropping what the job runs does.
    pub fn cancel(&self) -> bool {
        self.job.cancel()
    }

    /// Cancels the job, aborts a run that is going on, and returns whether this has changed anything. See
    /// [`Job::abort`].
    ///
    /// # Panics
    /// If the job is pending, and dropping what it runs panics.
    pub fn abort(&self) -> bool {
        self.job.abort()
    }

    /// Cancels the job when this handle is dropped.
    #[must_use = "the job is cancelled when this is dropped"]
    pub fn cancel_on_drop(mut self) -> Self {
        self.job = self.job.cancel_on_drop();
        self
    }

    /// Goes over to another schedule and returns whether that was in time: not if the job is over or is to end.
    ///
    /// The new schedule begins now, as the schedule of a new job does: this call asks it for the first run. A run that
    /// is going on goes on. When it has ended, the old schedule is asked once more, but its answer does not count, even
    /// if it has no further run. The next run is the first run of the new schedule. The job keeps its permit on a wheel
    /// with a bound.
    ///
    /// # Panics
    /// If the new schedule does when it is asked for the first run; the old one stays then. If the job is pending, and
    /// dropping the old schedule panics.
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
    /// let hour = Duration::from_secs(3_600);
    /// let job = wheel.run_every_at(start + hour, hour, || async {});
    /// assert!(job.set_schedule(FixedRate::new(Duration::from_secs(1)).times(5)));
    /// assert_eq!(job.await.unwrap(), 5);
    /// assert_eq!(start.elapsed(), Duration::from_secs(4));
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
