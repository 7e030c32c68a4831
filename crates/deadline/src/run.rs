//! The futures under a deadline: [`Run`] and [`Passed`].

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time;

use crate::Deadline;
use crate::ended::Ended;
use crate::tree::{Answer, Waiting};

/// Waits for the end of a deadline: see [`Deadline::passed`](crate::Deadline::passed).
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Passed<'a> {
    deadline: &'a Deadline,
    limit: Option<Duration>,
    waiting: Waiting,
    /// The time of a future whose timer the wheel refused. Kept once it is there: it may wake the task once more than it
    /// has to.
    by_tokio: Option<Pin<Box<time::Sleep>>>,
}

impl<'a> Passed<'a> {
    pub(crate) fn new(deadline: &'a Deadline, limit: Option<Duration>) -> Self {
        Self { deadline, limit, waiting: Waiting::default(), by_tokio: None }
    }

    #[inline]
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, limit, waiting, by_tokio } = self;
        loop {
            match deadline.tree.poll(deadline.place(), *limit, waiting, cx) {
                Answer::Ended(end) => return Poll::Ready(end),
                Answer::Pending => return Poll::Pending,
                Answer::Alone(at) => {
                    let sleep = by_tokio.get_or_insert_with(|| Box::pin(time::sleep_until(at)));
                    if sleep.deadline() != at {
                        sleep.as_mut().reset(at);
                    }
                    ready!(pin!(coop::unconstrained(sleep.as_mut())).poll(cx));
                    deadline.tree.reach(at);
                }
            }
        }
    }

    /// As the future's poll. `had_budget` tells whether the task had budget left before it polled others.
    #[inline]
    fn poll_in_budget(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<Ended> {
        let end = ready!(self.poll_end(cx));
        // A task that only ever finds its deadline ended has to let others run. But a future that used up the budget does
        // not escape its deadline by that.
        if !had_budget || coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        self.deadline.tree.count(self.deadline.place(), &self.waiting, end);
        Poll::Ready(end)
    }
}

impl Future for Passed<'_> {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        self.get_mut().poll_in_budget(false, cx)
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        self.deadline.tree.forget(&self.waiting);
    }
}

impl fmt::Debug for Passed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("limit", &self.limit).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that ends with a deadline: see [`Deadline::run`](crate::Deadline::run).
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Run<'a, F> {
        passed: Passed<'a>,
        #[pin]
        future: F,
    }
}

impl<'a, F> Run<'a, F> {
    pub(crate) const fn new(passed: Passed<'a>, future: F) -> Self {
        Self { passed, future }
    }
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, Ended>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        match this.future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => this.passed.poll_in_budget(had_budget, cx).map(Err),
        }
    }
}
