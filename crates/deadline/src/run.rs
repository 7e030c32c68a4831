//! The futures under a deadline: [`Run`] and [`Passed`].

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::tree::{Ended, Handle};

/// Waits for the end of a deadline: see [`Deadline::passed`](crate::Deadline::passed).
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Passed {
    handle: Handle,
    limit: Option<Instant>,
    /// Where it stands in the tree's list, once it was pending.
    waiter: Option<usize>,
}

impl Passed {
    pub(crate) const fn new(handle: Handle, limit: Option<Instant>) -> Self {
        Self { handle, limit, waiter: None }
    }
}

impl Future for Passed {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = self.get_mut();
        let end = this.handle.poll(&mut this.waiter, this.limit, cx);
        if matches!(end, Poll::Ready(Ended::Refused(_)))
            && let Some(waiter) = this.waiter.take()
        {
            // The next poll asks the wheel again.
            this.handle.forget(waiter);
        }
        end
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.handle.forget(waiter);
        }
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("limit", &self.limit).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that ends with a deadline: see [`Deadline::run`](crate::Deadline::run).
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Run<F> {
        passed: Passed,
        #[pin]
        future: F,
    }
}

impl<F> Run<F> {
    pub(crate) const fn new(passed: Passed, future: F) -> Self {
        Self { passed, future }
    }

    /// The future within.
    #[must_use]
    pub const fn get_ref(&self) -> &F {
        &self.future
    }
}

impl<F: Future> Future for Run<F> {
    type Output = Result<F::Output, Ended>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.passed).poll(cx).map(Err)
    }
}
