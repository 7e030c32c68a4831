//! The task of a job, and what it runs: a future, or those of a closure, one after the other.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use timingwheel::Error;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::contained;
use crate::error::JobError;
use crate::info::JobState;
use crate::jobs::Key;
use crate::record::{GoOn, Record, Slot};
use crate::schedule::{Answer, NextRun, Runs};

/// A future of a job that has not run.
pub(crate) type Unrun = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The way to the task that awaits the output of a job, if there is a handle.
pub(crate) type Tell<T> = Option<oneshot::Sender<Result<T, JobError>>>;

pub(crate) fn tell<T>(tell: Tell<T>, result: Result<T, JobError>) {
    if let Some(tell) = tell {
        _ = tell.send(result);
    }
}

/// The code of a job.
pub(crate) trait Work: Send + Sized + 'static {
    type Output: Send + 'static;
    /// The future or closure that the user has given.
    type Given;
    type Run: Future + Send;

    fn new(given: Self::Given) -> Self;

    /// The next run, if there is one.
    fn begin(&mut self) -> Option<Self::Run>;

    /// What comes of a run.
    fn ran(&mut self, answer: <Self::Run as Future>::Output) -> Ran<Self::Output>;

    /// The output of a job that has no further run.
    fn output(&self) -> Option<Self::Output>;

    /// The next run, for a user who takes the work back.
    fn give_back(self) -> Option<Unrun>;
}

/// The result of a run.
pub(crate) enum Ran<T> {
    Over(T),
    Again(NextRun),
}

/// Code of a user's that is dropped without a panic, if nobody takes it.
struct Kept<T>(Option<T>);

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        contained(|| self.0 = None);
    }
}

/// The run that `code` is to have.
fn unrun<T: Send + 'static, R>(code: T, run: impl FnOnce(T) -> R + Send + 'static) -> Unrun
where
    R: Future + Send,
{
    let mut kept = Kept(Some(code));
    Box::pin(async move {
        if let Some(code) = kept.0.take() {
            run(code).await;
        }
    })
}

/// A future that runs once, until it does.
pub(crate) struct Once<F>(Option<F>);

impl<F: Future<Output: Send> + Send + 'static> Work for Once<F> {
    type Output = F::Output;
    type Given = F;
    type Run = F;

    fn new(future: F) -> Self {
        Self(Some(future))
    }

    fn begin(&mut self) -> Option<F> {
        self.0.take()
    }

    fn ran(&mut self, output: F::Output) -> Ran<F::Output> {
        Ran::Over(output)
    }

    fn output(&self) -> Option<F::Output> {
        None
    }

    fn give_back(self) -> Option<Unrun> {
        Some(unrun(self.0?, |future| future))
    }
}

/// A closure whose futures run one after the other, and how many have.
pub(crate) struct Repeat<F>(F, u64);

impl<F: Runs> Work for Repeat<F> {
    type Output = u64;
    type Given = F;
    type Run = F::Run;

    fn new(make: F) -> Self {
        Self(make, 0)
    }

    fn begin(&mut self) -> Option<F::Run> {
        Some(self.0.run())
    }

    fn ran(&mut self, answer: <F::Run as Future>::Output) -> Ran<u64> {
        self.1 += 1;
        Ran::Again(answer.next_run())
    }

    fn output(&self) -> Option<u64> {
        Some(self.1)
    }

    fn give_back(self) -> Option<Unrun> {
        Some(unrun(self.0, |mut make| async move { make.run().await }))
    }
}

/// A run of a job, and those that are due when it is over. It is dropped in this order: whoever is told by the loss of the
/// other end finds the work dropped, and the record told.
pub(crate) struct Task<K: Key, W: Work> {
    work: W,
    unfinished: Unfinished<K, W>,
    tell: Tell<W::Output>,
}

/// The record of a job whose task may be dropped before its end, as where the runtime is shut down.
struct Unfinished<K: Key, W: Work> {
    record: Arc<Record<Slot<K, W>>>,
    is_finished: bool,
}

impl<K: Key, W: Work> Drop for Unfinished<K, W> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.record.finish(JobState::CouldNotRun, Some(Error::shutdown()));
        }
    }
}

impl<K: Key, W: Work> Task<K, W> {
    pub(crate) fn new(record: Arc<Record<Slot<K, W>>>, (work, tell): (W, Tell<W::Output>)) -> Self {
        Self { work, unfinished: Unfinished { record, is_finished: false }, tell }
    }

    pub(crate) async fn run(self) {
        let Self { mut tell, mut unfinished, work } = self;
        let mut work = Some(work);
        let ended = AssertUnwindSafe(runs(&unfinished.record, &mut work, &mut tell)).catch_unwind().await;
        // Before anybody is told.
        contained(|| work = None);
        unfinished.is_finished = true;
        let Some(result) = ended.unwrap_or_else(|panic| Some(Err(JobError::panicked(panic)))) else { return };
        let (state, error) = match &result {
            Ok(_) => (JobState::Done, None),
            Err(error) => (error.state(), error.reason()),
        };
        unfinished.record.finish(state, error);
        self::tell(tell, result);
    }
}

/// The job's result; or nothing, if it waits again or others have ended it.
async fn runs<K: Key, W: Work>(
    record: &Arc<Record<Slot<K, W>>>,
    work: &mut Option<W>,
    tell: &mut Tell<W::Output>,
) -> Option<Result<W::Output, JobError>> {
    loop {
        if !poll_fn(|cx| Poll::Ready(record.goes_on(cx.waker()))).await {
            return Some(Err(JobError::cancelled()));
        }
        let started = Instant::now();
        let answered = if record.leaves_out() {
            NextRun::BySchedule
        } else {
            let work = work.as_mut()?;
            let mut run = pin!(Some(work.begin()?));
            let ran = poll_fn(|cx| match (record.goes_on(cx.waker()), run.as_mut().as_pin_mut()) {
                (true, Some(run)) => run.poll(cx).map(|answer| Some(work.ran(answer))),
                _ => Poll::Ready(None),
            });
            let ran = AssertUnwindSafe(ran).catch_unwind().await;
            // Here, and not while a panic unwinds: a second one would abort the process.
            let dropped = catch_unwind(AssertUnwindSafe(|| run.set(None)));
            match ran.and_then(|ran| dropped.map(|()| ran)).unwrap_or_else(|panic| resume_unwind(panic)) {
                Some(Ran::Again(next)) => next,
                Some(Ran::Over(output)) => return Some(Ok(output)),
                None => return Some(Err(JobError::cancelled())),
            }
        };
        match record.go_on(started, answered, work, tell) {
            // Others first.
            GoOn::Now => yield_now().await,
            GoOn::Later => return None,
            GoOn::Over(Ok(())) => return work.as_ref()?.output().map(Ok),
            GoOn::Over(Err(error)) => return Some(Err(error)),
        }
    }
}
