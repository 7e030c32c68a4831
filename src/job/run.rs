//! The task of a job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::error::JobError;
use super::record::Record;
use crate::error::Error;

pin_project! {
    /// Runs a job's future, and tells the record how it ended.
    pub(super) struct Run<F>
    where
        F: Future,
        F: Send,
        F: 'static,
        F::Output: Send,
    {
        #[pin]
        future: F,
        record: Unfinished<F>,
    }
}

/// Dropped before the job is over, as when the runtime is shut down, it says so.
struct Unfinished<F>(Option<Arc<Record<F>>>)
where
    F: Future<Output: Send> + Send + 'static;

impl<F> Run<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(super) fn new(record: Arc<Record<F>>, future: F) -> Self {
        Self { future, record: Unfinished(Some(record)) }
    }
}

impl<F> Future for Run<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // What a panic leaves of the future is never polled again.
        let result = match catch_unwind(AssertUnwindSafe(|| this.future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(JobError::panicked(panic)),
        };
        if let Some(record) = this.record.0.take() {
            record.finish(result);
        }
        Poll::Ready(())
    }
}

impl<F> Drop for Unfinished<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            record.finish(Err(JobError::because(Error::shutdown())));
        }
    }
}
