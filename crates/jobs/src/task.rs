//! The task of a job, and what it runs: a future, or those of a closure, one after the other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use timingwheel::Error;
use tokio::sync::oneshot;
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
pub(crate) struct Tell<T>(Option<oneshot::Sender<Result<T, JobError>>>);

impl<T> Tell<T> {
    pub(crate) const NOBODY: Self = Self(None);

    /// And the handle's end.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Result<T, JobError>>) {
        let (tell, told) = oneshot::channel();
        (Self(Some(tell)), told)
    }

    pub(crate) fn tell(&mut self, result: Result<T, JobError>) {
        if let Some(tell) = self.0.take() {
            _ = tell.send(result);
        }
    }
}

/// The code of a job.
pub(crate) trait Work: Send + Sized + 'static {
    type Output: Send + 'static;
    /// The future or closure that the user has given.
    type Given;

    fn new(given: Self::Given) -> Self;

    /// Polls a run, which is begun if there is none.
    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<Self::Output>>;

    /// The work without a run, to wait for the next.
    fn take(self: Pin<&mut Self>) -> Option<Self>;

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

pin_project! {
    /// A future that runs once.
    pub(crate) struct Once<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future<Output: Send> + Send + 'static> Work for Once<F> {
    type Output = F::Output;
    type Given = F;

    fn new(future: F) -> Self {
        Self { future }
    }

    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<F::Output>> {
        self.project().future.poll(cx).map(Ran::Over)
    }

    fn take(self: Pin<&mut Self>) -> Option<Self> {
        None
    }

    fn output(&self) -> Option<F::Output> {
        None
    }

    fn give_back(self) -> Option<Unrun> {
        Some(unrun(self.future, |future| future))
    }
}

pin_project! {
    /// A closure whose futures run one after the other.
    pub(crate) struct Repeat<F: Runs> {
        // Until the work waits elsewhere.
        make: Option<F>,
        #[pin]
        run: Option<F::Run>,
        runs: u64,
    }
}

impl<F: Runs> Work for Repeat<F> {
    type Output = u64;
    type Given = F;

    fn new(make: F) -> Self {
        Self { make: Some(make), run: None, runs: 0 }
    }

    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ran<u64>> {
        let mut this = self.project();
        if let (None, Some(make)) = (&*this.run, &mut *this.make) {
            this.run.set(Some(make.run()));
        }
        let Some(run) = this.run.as_mut().as_pin_mut() else { return Poll::Pending };
        let next = ready!(run.poll(cx)).next_run();
        // What it held is free before the next run is due.
        this.run.set(None);
        *this.runs += 1;
        Poll::Ready(Ran::Again(next))
    }

    fn take(self: Pin<&mut Self>) -> Option<Self> {
        let this = self.project();
        Some(Self { make: Some(this.make.take()?), run: None, runs: *this.runs })
    }

    fn output(&self) -> Option<u64> {
        Some(self.runs)
    }

    fn give_back(self) -> Option<Unrun> {
        Some(unrun(self.make?, |mut make| async move { make.run().await }))
    }
}

pin_project! {
    /// A run of a job, and those that are due when it is over.
    pub(crate) struct Task<K: Key, W: Work> {
        record: Arc<Record<Slot<K, W>>>,
        #[pin]
        work: Option<W>,
        tell: Tell<W::Output>,
        started: Option<Instant>,
    }

    impl<K: Key, W: Work> PinnedDrop for Task<K, W> {
        /// Before its end, as where the runtime is shut down.
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.work.is_some() {
                contained(|| this.work.set(None));
                this.record.finish(JobState::CouldNotRun, Some(Error::shutdown()));
            }
        }
    }
}

impl<K: Key, W: Work> Task<K, W> {
    pub(crate) fn new(record: Arc<Record<Slot<K, W>>>, (work, tell): (W, Tell<W::Output>)) -> Self {
        Self { record, work: Some(work), tell, started: None }
    }

    /// The job's result; or nothing, if it waits again or others have ended it.
    fn poll_runs(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<W::Output, JobError>>> {
        let mut this = self.project();
        let Some(mut work) = this.work.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        if !this.record.goes_on(cx.waker()) {
            return Poll::Ready(Some(Err(JobError::cancelled())));
        }
        let begins = this.started.is_none();
        let started = *this.started.get_or_insert_with(Instant::now);
        let answered = if begins && this.record.leaves_out() {
            NextRun::BySchedule
        } else {
            match ready!(work.as_mut().poll_run(cx)) {
                Ran::Over(output) => return Poll::Ready(Some(Ok(output))),
                Ran::Again(next) => next,
            }
        };
        match this.record.go_on(started, answered, work.as_mut(), this.tell) {
            GoOn::Now => {
                *this.started = None;
                // Others first.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            GoOn::Later => Poll::Ready(None),
            GoOn::Over(Ok(())) => Poll::Ready(work.output().map(Ok)),
            GoOn::Over(Err(error)) => Poll::Ready(Some(Err(error))),
        }
    }
}

impl<K: Key, W: Work> Future for Task<K, W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // What a panic leaves of the run is never polled again.
        let polled: Result<_, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| {
            let result = ready!(self.as_mut().poll_runs(cx));
            // Before anybody is told.
            self.as_mut().project().work.set(None);
            Poll::Ready(result)
        }));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(panic) => Some(Err(JobError::panicked(panic))),
        };
        let mut this = self.project();
        contained(|| this.work.set(None));
        if let Some(result) = result {
            let (state, error) = match &result {
                Ok(_) => (JobState::Done, None),
                Err(error) => (error.state(), error.reason()),
            };
            this.record.finish(state, error);
            this.tell.tell(result);
        }
        Poll::Ready(())
    }
}
