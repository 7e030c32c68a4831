//! What a job does that runs once.

use std::convert::Infallible;

use futures::FutureExt;
use futures::future::Map;
use tokio::time::Instant;

use super::{Next, SetBy, Step, Unrun, Work};
use crate::services::job::pending_run::PendingRun;
use crate::services::job::schedule::Schedule;
use crate::timers::tolerance::Slack;
use crate::wheel::{Nanos, Resolution};

/// A future that runs once.
pub(in crate::services::job) struct Once<F>(pub(in crate::services::job) F);

impl<F> Work for Once<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    const REPEATS: bool = false;

    type KeptPermit = ();
    type Output = F::Output;
    type Change = Infallible;
    type Run = Map<F, fn(F::Output) -> Step<Self>>;

    fn run(self) -> Self::Run {
        self.0.map(Step::Over)
    }

    fn has_begun(_run: &Self::Run) -> bool {
        true
    }

    fn give_back(self) -> Unrun<F::Output> {
        Box::pin(self.0)
    }

    /// The handle says it, so that a job takes no memory for it.
    fn slack(&self) -> Option<Slack> {
        None
    }

    fn change(&mut self, change: &mut Infallible) -> Next<Self> {
        match *change {}
    }

    fn change_to(
        _schedule: Box<dyn Schedule>,
        _now: Instant,
        _resolution: Resolution,
        _run: impl FnOnce() -> PendingRun,
    ) -> Option<Infallible> {
        None
    }

    fn change_first(change: &mut Infallible, _first: Instant) {
        match *change {}
    }

    fn attach(&mut self, _run: impl FnOnce() -> PendingRun) {}

    fn note_due(&mut self, _due: Nanos, _by: SetBy) {}

    /// It has no schedule.
    fn set_by(&self) -> SetBy {
        SetBy::User
    }

    fn note_wait(&mut self, _until: Nanos) {}
}
