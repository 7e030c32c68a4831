//! What a schedule moves its job's pending run with.

use std::fmt;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

/// The run that a repeating job waits for, from [`Schedule::attach`](super::Schedule::attach).
///
/// It does not keep the job alive. A clone stands for the same run.
#[derive(Clone)]
pub struct PendingRun(Weak<dyn Movable>);

/// A job, as its schedule changes it.
pub(super) trait Movable: Send + Sync {
    fn move_run(self: Arc<Self>, deadline: Instant) -> bool;
    fn end_schedule(self: Arc<Self>) -> bool;
}

impl PendingRun {
    pub(super) fn of<J: Movable + 'static>(job: &Arc<J>) -> Self {
        let job: Arc<dyn Movable> = job.clone();
        Self(Arc::downgrade(&job))
    }

    /// Moves the run to `deadline` and returns whether the job now waits for it. During a run, when the job is over, and
    /// before it has been added, as within [`attach`](super::Schedule::attach), there is no run to move.
    ///
    /// The schedule is not asked now. When the moved run has ended, the schedule goes on from the new time.
    pub fn reset(&self, deadline: Instant) -> bool {
        self.0.upgrade().is_some_and(|job| job.move_run(deadline))
    }

    /// Ends the job as if its schedule had no further run, and returns whether that was in time: not if the job is over, nor
    /// before it has been added. A run that is going on is the last.
    pub fn end(&self) -> bool {
        self.0.upgrade().is_some_and(Movable::end_schedule)
    }
}

impl fmt::Debug for PendingRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRun").finish_non_exhaustive()
    }
}
