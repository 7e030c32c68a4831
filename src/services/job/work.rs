//! What a job does: once, or again and again.

use std::convert::Infallible;

use futures::FutureExt;
use futures::future::Map;
use tokio::time::Instant;

use super::pending_run::PendingRun;
use super::place::Place;
use super::schedule::Schedule;
use crate::wheel::Nanos;

/// What a job does, while it waits for its time.
pub(super) trait Work: Send + Sized + 'static {
    /// Whether on a wheel with a bound it keeps a place until it is over.
    type Place: Place;

    type Output: Send + 'static;

    /// What can be asked of it while it runs, for when the run is over.
    type Change: Send + 'static;

    /// One run, and what comes after it.
    type Run: Future<Output = Step<Self>> + Send + 'static;

    /// Calls no code of a user's: that is for the run's polls, in a task.
    fn run(self) -> Self::Run;

    /// Makes a change, and leaves in its place what is to be dropped outside locks.
    fn change(&mut self, change: &mut Self::Change) -> Next<Self>;

    /// To run by another schedule, which is asked for the first run, from `now`, and given what moves a run; `None` if
    /// there is none to change.
    fn change_to(
        schedule: Box<dyn Schedule>,
        now: Instant,
        run: impl FnOnce() -> PendingRun,
    ) -> Option<Self::Change>;

    /// For a job that is about to wait for its first run: what moves that and the ones to come.
    fn attach(&mut self, run: impl FnOnce() -> PendingRun);

    /// The next run has been moved to `due`.
    fn note_due(&mut self, due: Nanos);
}

/// When the next run is due, or what the job has come to, as there is none.
pub(super) type Next<W> = Result<Nanos, <W as Work>::Output>;

/// What comes after a run.
pub(super) enum Step<W: Work> {
    Over(W::Output),
    /// Unless something else was asked of it meanwhile.
    Again(W, Next<W>),
}

/// A future that runs once.
pub(super) struct Once<F>(pub(super) F);

impl<F> Work for Once<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Place = ();
    type Output = F::Output;
    type Change = Infallible;
    type Run = Map<F, fn(F::Output) -> Step<Self>>;

    fn run(self) -> Self::Run {
        self.0.map(Step::Over)
    }

    fn change(&mut self, change: &mut Infallible) -> Next<Self> {
        match *change {}
    }

    fn change_to(
        _schedule: Box<dyn Schedule>,
        _now: Instant,
        _run: impl FnOnce() -> PendingRun,
    ) -> Option<Infallible> {
        None
    }

    fn attach(&mut self, _run: impl FnOnce() -> PendingRun) {}

    fn note_due(&mut self, _due: Nanos) {}
}
