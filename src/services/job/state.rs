//! Where a job stands.

use tokio::time::Instant;

/// Where a job stands, from [`Job::state`](super::Job::state).
///
/// | state | next |
/// |---|---|
/// | `Pending` | `Running` when it is due, `Cancelled`, or `CouldNotRun` |
/// | `Running` | `Done`, `Panicked`, or `CouldNotRun`; of a repeating job also `Pending`, or `Cancelled` after the run |
/// | the others | none: the job is over |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its time.
    Pending,
    /// Its task has been spawned.
    Running,
    /// It has run to its end; one that repeats, to that of its schedule.
    Done,
    /// It panicked.
    Panicked,
    /// It was cancelled: before it began, or before the next run of one that repeats.
    Cancelled,
    /// It could not run, or not to its end: [`JobError::reason`](super::JobError::reason) says why.
    CouldNotRun,
}

impl JobState {
    /// Whether the job is neither pending nor running, and will never be again.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// What [`Jobs`](super::Jobs) tell of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Where it stands, or stood when it was replaced, removed or stopped.
    pub state: JobState,
    /// When it is due, as long as it is pending, or was when it was replaced, removed or stopped; and when it was to
    /// run, if it waited for that and could not.
    pub due: Option<Instant>,
}
