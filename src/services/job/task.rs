//! The task of a job.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use pin_project_lite::pin_project;

use super::error::JobError;
use super::work::{Next, Step, Work};
use crate::error::Error;

/// Whom a task tells how its runs ended, and asks how the job goes on.
pub(super) trait Account<W: Work>: Send + Sync + 'static {
    /// A poll begins, of a run that has begun before or not. Returns whether the run goes on; `task` is woken if that
    /// changes.
    fn goes_on(&self, has_begun: bool, task: &Waker) -> bool;

    /// A run is over. Looks at what was asked meanwhile in the same moment as it ends the job or puts it back, so that
    /// nothing is lost.
    fn go_on(self: &Arc<Self>, work: W, next: Next<W>) -> GoOn<W>;

    /// The job is over.
    fn finish(&self, result: Result<W::Output, JobError>);
}

/// How a job goes on whose run is over.
pub(super) enum GoOn<W: Work> {
    /// It is in the wheel, or over.
    Later,
    /// It is due.
    Now(W),
    /// This was asked of it first.
    Changed(W, W::Change),
}

pin_project! {
    /// A run of a job, and those that are due when it is over.
    pub(super) struct Task<W, A>
    where
        W: Work,
        A: Account<W>,
    {
        #[pin]
        run: Option<W::Run>,
        account: Unfinished<W, A>,
    }
}

/// Says that the job could not run to its end if it is dropped before that, as when the runtime is shut down.
struct Unfinished<W: Work, A: Account<W>>(Option<Arc<A>>, PhantomData<fn(W)>);

impl<W: Work, A: Account<W>> Task<W, A> {
    pub(super) fn new(account: Arc<A>, work: W) -> Self {
        Self { run: Some(work.run()), account: Unfinished(Some(account), PhantomData) }
    }

    /// What a job comes to, or `None` if it waits in the wheel or was ended by others.
    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<W::Output, JobError>>> {
        let mut this = self.project();
        let Some(account) = &this.account.0 else { return Poll::Ready(None) };
        let has_begun = this.run.as_ref().get_ref().as_ref().is_some_and(W::has_begun);
        if !account.goes_on(has_begun, cx.waker()) {
            // Before anybody is told.
            this.run.set(None);
        }
        let Some(run) = this.run.as_mut().as_pin_mut() else {
            return Poll::Ready(Some(Err(JobError::cancelled())));
        };
        let (mut work, mut next) = match ready!(run.poll(cx)) {
            Step::Over(output) => return Poll::Ready(Some(Ok(output))),
            Step::Again(work, next) => (work, next),
        };
        loop {
            match account.go_on(work, next) {
                GoOn::Later => return Poll::Ready(None),
                GoOn::Changed(changed, mut change) => {
                    work = changed;
                    next = work.change(&mut change);
                }
                GoOn::Now(work) => {
                    this.run.set(Some(work.run()));
                    // Others first.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<W: Work, A: Account<W>> Future for Task<W, A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // What a panic leaves of the run is never polled again.
        let polled: Result<_, Box<dyn Any + Send>> =
            catch_unwind(AssertUnwindSafe(|| self.as_mut().poll_run(cx)));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(panic) => Some(Err(JobError::panicked(panic))),
        };
        if let (Some(account), Some(result)) = (self.project().account.0.take(), result) {
            account.finish(result);
        }
        Poll::Ready(())
    }
}

impl<W: Work, A: Account<W>> Drop for Unfinished<W, A> {
    fn drop(&mut self) {
        if let Some(account) = self.0.take() {
            account.finish(Err(JobError::because(Error::shutdown())));
        }
    }
}
