//! The futures under a deadline: [`Run`] and [`Passed`].

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::coop;
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
        let end = ready!(this.handle.poll(&mut this.waiter, this.limit, cx));
        // A task that only ever finds its deadline ended has to let others run.
        ready!(coop::poll_proceed(cx)).made_progress();
        if matches!(end, Ended::Refused(_))
            && let Some(waiter) = this.waiter.take()
        {
            // The next poll asks the wheel again.
            this.handle.forget(waiter);
        }
        Poll::Ready(end)
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
}

impl<F: Future> Future for Run<F> {
    type Output = Result<F::Output, Ended>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // A future that used up the budget does not escape its deadline by that.
        if had_budget && !coop::has_budget_remaining() {
            return pin!(coop::unconstrained(this.passed)).poll(cx).map(Err);
        }
        Pin::new(this.passed).poll(cx).map(Err)
    }
}
