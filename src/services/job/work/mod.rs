//! What a job does: once, or again and again.

mod once;
mod repeat;

use std::pin::Pin;

use tokio::time::Instant;

pub(super) use once::Once;
pub(super) use repeat::Repeat;

use super::pending_run::PendingRun;
use super::permit_state::KeptPermit;
use super::schedule::Schedule;
use crate::timers::tolerance::Slack;
use crate::wheel::{Nanos, Resolution};

/// Who has said when a run is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SetBy {
    /// The schedule, when it was asked, or later through a [`PendingRun`].
    Schedule,
    /// The job's user, through a handle.
    User,
}

/// What a job does, while it waits for its time.
pub(super) trait Work: Send + Sized + 'static {
    /// Whether the job may run more than once. Then it keeps its permit on a wheel with a bound until it is over.
    const REPEATS: bool;

    type KeptPermit: KeptPermit;

    type Output: Send + 'static;

    /// What can be asked of the job during a run, for when the run is over.
    type Change: Send + 'static;

    /// One run, and what comes after it.
    type Run: Future<Output = Step<Self>> + Send + 'static;

    /// Calls no code of a user's: that is for the run's polls, in a task.
    fn run(self) -> Self::Run;

    /// Whether a run that its task has not polled yet is one all the same: then it goes on when no further run is to begin.
    fn has_begun(run: &Self::Run) -> bool;

    /// The next run, for a user who takes the work back.
    fn give_back(self) -> Unrun<Self::Output>;

    /// How late a run may be, if the work says so itself.
    fn slack(&self) -> Option<Slack>;

    /// Makes a change, and leaves in its place what is to be dropped outside locks.
    fn change(&mut self, change: &mut Self::Change) -> Next<Self>;

    /// To run by another schedule, which is asked for the first run, from `now`, and given what moves a run; `None` if
    /// the work has no schedule.
    fn change_to(
        schedule: Box<dyn Schedule>,
        now: Instant,
        resolution: Resolution,
        run: impl FnOnce() -> PendingRun,
    ) -> Option<Self::Change>;

    /// Sets the first run of a change, for the job's user.
    fn change_first(change: &mut Self::Change, first: Instant);

    /// For a job that is about to wait for its first run: what moves that and the ones to come.
    fn attach(&mut self, run: impl FnOnce() -> PendingRun);

    /// The next run has been moved to `due`.
    fn note_due(&mut self, due: Nanos, by: SetBy);

    /// Who has said when the next run is due.
    fn set_by(&self) -> SetBy;

    /// The job waits for its next run until `until`, which is when that is due, or a little later.
    fn note_wait(&mut self, until: Nanos);
}

/// A future that has not run.
pub(super) type Unrun<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// When the next run is due, or what the job has come to, as there is none.
pub(super) type Next<W> = Result<Nanos, <W as Work>::Output>;

/// What comes after a run.
pub(super) enum Step<W: Work> {
    Over(W::Output),
    /// Unless something else was asked of the job meanwhile.
    Again(W, Next<W>),
}
