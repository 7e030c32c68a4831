//! Where a job stands, and how waiting code learns of its end.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Where a job stands, from [`JobInfo::state`].
///
/// | state | next |
/// |---|---|
/// | `Pending` | `Running` or `Queued` when it is due, `Cancelled`, or `CouldNotRun` |
/// | `Queued` | `Running` when it has a place, `Cancelled`, or `CouldNotRun` |
/// | `Running` | `Done`, `Panicked`, `Cancelled` or `CouldNotRun`; a repeating job may also become `Pending` or `Queued` again |
/// | the others | none: the job is over |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// The job waits for its time.
    Pending,
    /// The job is due, and waits until fewer jobs run: see [`Jobs::with_concurrency`](crate::Jobs::with_concurrency).
    Queued,
    /// The job's task has been spawned.
    Running,
    /// The job has run to its end. A repeating job has come to the end of its schedule.
    Done,
    /// The job panicked.
    Panicked,
    /// The job was cancelled before it began, or before its next run, or it was aborted.
    Cancelled,
    /// The job could not run, or not to its end. [`JobError::reason`](crate::JobError::reason) says why.
    CouldNotRun,
}

impl JobState {
    /// Whether the job has ended.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Queued | Self::Running)
    }
}

/// A job's state and time, from [`Job::info`](crate::Job::info) and [`Jobs`](crate::Jobs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Where the job stands, or stood when it was replaced, removed or shut down.
    pub state: JobState,
    /// When the job is due, unless it runs or is over. For a job that waited and could not run: when it was due.
    pub due: Option<Instant>,
}

impl JobInfo {
    /// How long from now until the job is due: zero if it waits for a place or is about to begin, `None` if it had begun or
    /// was over.
    ///
    /// Reads tokio's clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_jobs::Jobs;
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("order 7", Duration::from_secs(60), async {})?;
    /// tokio::time::advance(Duration::from_secs(15)).await;
    /// assert_eq!(jobs.get("order 7").unwrap().time_left(), Some(Duration::from_secs(45)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let due = self.due.filter(|_| matches!(self.state, JobState::Pending | JobState::Queued))?;
        Some(due.saturating_duration_since(Instant::now()))
    }
}

/// The end of a job, from [`Jobs::join`](crate::Jobs::join). It returns the job's last [state](JobState).
///
/// A job that was replaced, removed or shut down before it began is [`Cancelled`](JobState::Cancelled). If the job
/// was running at that time, the wait lasts until the run ends.
///
/// It does not keep the job's future, and may be awaited in any runtime or executor. It is `Unpin`.
///
/// # Cancel safety
/// A dropped wait by `&mut join` loses nothing.
///
/// # Panics
/// If it is polled again after it was ready.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Join(pub(crate) oneshot::Receiver<JobState>);

impl Future for Join {
    type Output = JobState;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<JobState> {
        // Without an answer the record is gone, as its wheel is.
        Pin::new(&mut self.0).poll(cx).map(|told| told.unwrap_or(JobState::CouldNotRun))
    }
}
