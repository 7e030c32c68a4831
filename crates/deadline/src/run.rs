//! The futures under a deadline: [`Run`] and [`Passed`].

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::{self, Instant};

use crate::Deadline;
use crate::tree::{Answer, Ended, instant_in};

/// Waits for the end of a deadline: see [`Deadline::passed`](crate::Deadline::passed).
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Passed {
    deadline: Deadline,
    limit: Limit,
    /// Where it stands in the tree's list, if it does.
    slot: Option<usize>,
    by_tokio: ByTokio,
}

/// A future's own limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    None,
    /// From the first poll on.
    In(Duration),
    At(Instant),
}

impl Passed {
    pub(crate) const fn new(deadline: Deadline, limit: Limit) -> Self {
        Self { deadline, limit, slot: None, by_tokio: ByTokio(None) }
    }
}

impl Future for Passed {
    type Output = Ended;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        // A task that only ever finds its deadline ended has to let others run. First, because a tree counts an end that it
        // tells.
        let coop = ready!(coop::poll_proceed(cx));
        let Self { deadline, limit, slot, by_tokio } = self.get_mut();
        let limit = match limit {
            Limit::None => None,
            Limit::At(limit) => Some(*limit),
            Limit::In(after) => {
                let at = instant_in(&deadline.tree.wheel, *after);
                *limit = Limit::At(at);
                Some(at)
            }
        };
        let end = loop {
            match deadline.tree.poll(deadline.place(), slot, limit, cx) {
                Answer::Ended(end) => break end,
                Answer::Pending => return Poll::Pending,
                Answer::Alone(at) => {
                    ready!(by_tokio.poll_until(at, cx));
                    deadline.tree.reach(at);
                }
            }
        };
        coop.made_progress();
        Poll::Ready(end)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.deadline.tree.forget(slot);
        }
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The time of a future whose timer the wheel refused. Kept once it is there: it may wake the task once more than it has to.
pub(crate) struct ByTokio(pub(crate) Option<Pin<Box<time::Sleep>>>);

impl ByTokio {
    /// Ready once `at` has come.
    ///
    /// # Panics
    /// If tokio has no timers here.
    #[cold]
    pub(crate) fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(time::sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        pin!(coop::unconstrained(sleep.as_mut())).poll(cx)
    }
}

pin_project! {
    /// A future that ends with a deadline: see [`Deadline::run`](crate::Deadline::run) and
    /// [`ReusableDeadline::run`](crate::ReusableDeadline::run). `P` waits for the deadline.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Run<F, P = Passed> {
        passed: P,
        #[pin]
        future: F,
    }
}

impl<F, P> Run<F, P> {
    pub(crate) const fn new(passed: P, future: F) -> Self {
        Self { passed, future }
    }
}

impl<F: Future, P: Future<Output = Ended> + Unpin> Future for Run<F, P> {
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
