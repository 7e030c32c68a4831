//! The task of a job.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::error::JobError;
use super::record::{GoOn, Owner, Record};
use super::work::{Step, Work};
use crate::error::Error;

pin_project! {
    /// A run of a job, and those that are due when it is over. It tells the record how it ended.
    pub(super) struct Run<W, O>
    where
        W: Work,
        O: Owner,
    {
        #[pin]
        run: W::Run,
        record: Unfinished<W, O>,
    }
}

/// Dropped before the run is over, as when the runtime is shut down, it says so.
struct Unfinished<W: Work, O: Owner>(Option<Arc<Record<W, O>>>);

impl<W: Work, O: Owner> Run<W, O> {
    pub(super) fn new(record: Arc<Record<W, O>>, work: W) -> Self {
        Self { run: work.run(), record: Unfinished(Some(record)) }
    }

    /// What a job comes to: its output, or `None` if it waits in the wheel, or was ended by others.
    fn poll_run(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<W::Output>> {
        let mut this = self.project();
        let Some(record) = &this.record.0 else { return Poll::Ready(None) };
        let (mut work, mut next) = match ready!(this.run.as_mut().poll(cx)) {
            Step::Over(output) => return Poll::Ready(Some(output)),
            Step::Again(work, next) => (work, next),
        };
        loop {
            match record.go_on(work, next) {
                GoOn::Later => return Poll::Ready(None),
                GoOn::Changed(changed, mut change) => {
                    work = changed;
                    next = work.change(&mut change);
                }
                GoOn::Now(work) => {
                    this.run.set(work.run());
                    // Others first.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<W: Work, O: Owner> Future for Run<W, O> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // What a panic leaves of the run is never polled again.
        let polled: Result<_, Box<dyn Any + Send>> =
            catch_unwind(AssertUnwindSafe(|| self.as_mut().poll_run(cx)));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(None)) => None,
            Ok(Poll::Ready(Some(output))) => Some(Ok(output)),
            Err(panic) => Some(Err(JobError::panicked(panic))),
        };
        if let (Some(record), Some(result)) = (self.project().record.0.take(), result) {
            record.finish(result);
        }
        Poll::Ready(())
    }
}

impl<W: Work, O: Owner> Drop for Unfinished<W, O> {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            record.finish(Err(JobError::because(Error::shutdown())));
        }
    }
}
