//! The futures under a deadline: [`Run`] and [`Passed`].

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::{self, Instant};

use crate::Deadline;
use crate::ended::Ended;
use crate::tree::{Answer, Waiting};

/// Waits for the end of a deadline: see [`Deadline::passed`](crate::Deadline::passed).
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Passed<'a> {
    deadline: &'a Deadline,
    limit: Option<Duration>,
    waiting: Waiting,
    by_tokio: ByTokio,
}

impl<'a> Passed<'a> {
    pub(crate) fn new(deadline: &'a Deadline, limit: Option<Duration>) -> Self {
        Self { deadline, limit, waiting: Waiting::default(), by_tokio: ByTokio(None) }
    }

    #[inline]
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, limit, waiting, by_tokio } = self;
        loop {
            match deadline.tree.poll(deadline.place(), *limit, waiting, cx) {
                Answer::Ended(end) => return Poll::Ready(end),
                Answer::Pending => return Poll::Pending,
                Answer::Alone(at) => {
                    ready!(by_tokio.poll_until(at, cx));
                    deadline.tree.reach(at);
                }
            }
        }
    }
}

impl Future for Passed<'_> {
    type Output = Ended;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let end = ready!(self.poll_end(cx));
        // A task that only ever finds its deadline ended has to let others run.
        ready!(coop::poll_proceed(cx)).made_progress();
        self.deadline.tree.count(self.deadline.place(), &self.waiting, end);
        Poll::Ready(end)
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
    pub struct Run<F, P> {
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
