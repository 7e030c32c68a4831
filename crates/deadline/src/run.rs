//! The futures under a deadline: [`Run`] and [`Passed`].

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

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
    waiting: Waiting,
    by_tokio: ByTokio,
    end: Yields,
}

impl<'a> Passed<'a> {
    pub(crate) const fn new(deadline: &'a Deadline, waiting: Waiting) -> Self {
        Self { deadline, waiting, by_tokio: ByTokio(None), end: Yields(false) }
    }
}

impl Future for Passed<'_> {
    type Output = Ended;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, waiting, .. } = &mut *self;
        match deadline.tree.poll(deadline.place(), waiting, cx) {
            Answer::Pending => Poll::Pending,
            answer => self.told(answer, cx),
        }
    }
}

impl Passed<'_> {
    #[cold]
    fn told(&mut self, mut answer: Answer, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, waiting, by_tokio, end } = self;
        loop {
            match answer {
                Answer::Pending => return Poll::Pending,
                Answer::Alone(at) => {
                    ready!(by_tokio.poll_until(at, cx));
                    deadline.tree.reach(at);
                }
                Answer::Ended(ended) => {
                    ready!(end.poll(cx));
                    deadline.tree.count(deadline.place(), waiting, ended);
                    return Poll::Ready(ended);
                }
            }
            answer = deadline.tree.poll(deadline.place(), waiting, cx);
        }
    }
}

impl Drop for Passed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.deadline.tree.forget(&self.waiting);
    }
}

impl fmt::Debug for Passed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passed").field("limit", &self.waiting.limit).finish_non_exhaustive()
    }
}

/// Spends the budget of a task that has found a deadline ended. Without a budget it lets others run first, once: a task
/// that only ever finds deadlines ended has to do so, and a future that uses up the budget does not escape by that.
#[derive(Debug)]
pub(crate) struct Yields(pub(crate) bool);

impl Yields {
    #[cold]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !mem::replace(&mut self.0, true) {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(())
    }
}

/// The time of a future whose timer the wheel refused. Kept once it is there: it may wake the task once more than it has to.
#[derive(Debug)]
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
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.passed).poll(cx).map(Err)
    }
}
