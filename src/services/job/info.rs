//! Where a job stands, as users are told.

use std::time::Duration;

use tokio::time::Instant;

/// Where a job stands, from [`Job::state`](super::Job::state).
///
/// | state | next |
/// |---|---|
/// | `Pending` | `Running` when it is due, `Cancelled`, or `CouldNotRun` |
/// | `Running` | `Done`, `Panicked`, `Cancelled` or `CouldNotRun`; a repeating job may also become `Pending` again |
/// | the others | none: the job is over |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// The job waits for its time.
    Pending,
    /// The job's task has been spawned.
    Running,
    /// The job has run to its end. A repeating job has come to the end of its schedule.
    Done,
    /// The job panicked.
    Panicked,
    /// The job was cancelled before it began, or before its next run, or it was aborted.
    Cancelled,
    /// The job could not run, or not to its end. [`JobError::reason`](super::JobError::reason) says why.
    CouldNotRun,
}

impl JobState {
    /// Whether the job is neither pending nor running, and never will be again.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// What [`Jobs`](super::Jobs) tell of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Where the job stands, or stood when it was replaced, removed or stopped.
    pub state: JobState,
    /// When the job is due while it is pending, or was when it was replaced, removed or stopped. For a job that waited
    /// and could not run: when it was due.
    pub due: Option<Instant>,
}

impl JobInfo {
    /// How long from now until the job is due: zero if that time has passed, `None` if [`due`](Self::due) is.
    ///
    /// Looks at tokio's clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::Jobs;
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
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }
}
