//! What a schedule moves its job's pending run with.

use std::fmt;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::handle::Handled;
use super::record::{Owner, Record};
use super::schedule::Previous;
use super::when::When;
use super::work::Work;

/// The run that a repeating job waits for, from [`Schedule::attach`](super::Schedule::attach).
///
/// It does not keep the job. A clone is the same run.
#[derive(Clone)]
pub struct PendingRun(Weak<dyn Movable>);

trait Movable: Send + Sync {
    fn reset(self: Arc<Self>, deadline: Instant) -> bool;
    fn end(self: Arc<Self>) -> bool;
}

impl<W: Work, O: Owner> Movable for Record<W, O> {
    fn reset(self: Arc<Self>, deadline: Instant) -> bool {
        let when = When::at(deadline, Handled::clock(&*self));
        Handled::reset(self, when)
    }

    fn end(self: Arc<Self>) -> bool {
        Self::set_schedule(&self, Box::new(|_: Previous| None))
    }
}

impl PendingRun {
    pub(super) fn of<W: Work, O: Owner>(record: &Arc<Record<W, O>>) -> Self {
        let record: Arc<dyn Movable> = record.clone();
        Self(Arc::downgrade(&record))
    }

    /// Moves the run to `deadline`, as [`Repeating::reset`](super::Repeating::reset) does, and tells whether the job
    /// waits for it then. During a run, and when the job is over, there is none to move.
    ///
    /// The schedule is not asked: it goes on from there when that run has ended.
    pub fn reset(&self, deadline: Instant) -> bool {
        self.0.upgrade().is_some_and(|record| record.reset(deadline))
    }

    /// Ends the job as if its schedule had no further run, and tells whether that was in time. A run that is going on
    /// is the last.
    pub fn end(&self) -> bool {
        self.0.upgrade().is_some_and(Movable::end)
    }
}

impl fmt::Debug for PendingRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRun").finish_non_exhaustive()
    }
}
