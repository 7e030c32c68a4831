//! The futures under a deadline: [`Run`] and [`Passed`].

use std::future::pending;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use crate::Deadline;
use crate::ended::Ended;
use crate::sync::{Timeout, TimingWheel};
use crate::tree::{Limit, instant_in};

/// Waits for the end of a deadline: see [`Deadline::passed`](crate::Deadline::passed).
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct Passed<'a> {
    deadline: &'a Deadline,
    limit: Limit,
    /// Its place in the tree's list, unless its task is the first.
    slot: Option<usize>,
    own: Own,
}

impl<'a> Passed<'a> {
    pub(crate) fn new(deadline: &'a Deadline, limit: Limit) -> Self {
        Self { deadline, limit, slot: None, own: Own::default() }
    }

    /// As [`poll`](Future::poll), where the task may have to be registered or the timer to be armed.
    #[inline(never)]
    fn poll_anew(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, limit, slot, own } = self;
        let (tree, place) = (&deadline.tree, deadline.place());
        // No waker is cloned or dropped while the lock is held. It need not be known by its clone, so it is registered once.
        let mut clone = Some(cx.waker().clone());
        // For which time the wheel was asked. If the deadline moves meanwhile, it is asked again.
        let mut asked = None;
        let mut state = tree.lock();
        loop {
            let (passes, end) = state.ends(place, *limit, None);
            if let Some(end) = end {
                drop(tree.tend(state, None));
                ready!(own.poll_budget(cx));
                if end == Ended::Passed {
                    tree.count_passed(place, *limit);
                }
                return Poll::Ready(end);
            }
            if !state.waiter(*slot).is_of(place, cx.waker())
                && let Some(waker) = clone.take()
                && let Some(before) = state.register(place, slot, waker)
            {
                drop(state);
                drop(before);
                state = tree.lock();
            } else if state.covers(passes) {
                let waiter = state.waiter(*slot);
                // If another task is the first by now, this one was woken. That one may be woken earlier than it has to, but by
                // another deadline's time it might be too late.
                if waiter.node == place {
                    waiter.at = Some(waiter.at.map_or(passes, |at| at.min(passes)));
                }
                return Poll::Pending;
            } else if asked.replace(passes) != Some(passes) {
                state = tree.tend(state, Some(passes)).unwrap_or_else(|| tree.lock());
            } else {
                drop(state);
                ready!(own.poll_until(&tree.wheel, passes, cx));
                tree.reach(passes);
                state = tree.lock();
            }
        }
    }
}

impl Future for Passed<'_> {
    type Output = Ended;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline, limit, slot, .. } = &mut *self;
        if let Limit::After(after) = *limit {
            *limit = Limit::At(instant_in(&deadline.tree.wheel, after));
        }
        let tree = &deadline.tree;
        // The timer's waker is counted too. Without a timer nobody waits, as far as this thread knows.
        let is_armed = Arc::strong_count(tree) > tree.deadlines.load(Ordering::Relaxed);
        if is_armed && tree.lock().waits(deadline.place(), *limit, *slot, cx.waker()) {
            return Poll::Pending;
        }
        self.poll_anew(cx)
    }
}

impl Drop for Passed<'_> {
    #[inline]
    fn drop(&mut self) {
        let waiter = self.slot.map(|slot| self.deadline.tree.lock().others.remove(slot));
        drop(waiter);
    }
}

/// What a future has of its own, once it needs it.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Stays, so it may wake the task once more than it has to.
    timeout: Option<Box<Timeout>>,
    has_asked_for_budget: bool,
}

impl Own {
    /// For a future whose timer the wheel refused: ready once `at` has come.
    ///
    /// # Panics
    /// If tokio has no timers here.
    #[cold]
    pub(crate) fn poll_until(&mut self, wheel: &TimingWheel, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // A new one for each time: one that is moved wakes the task.
        let before = self.timeout.take().filter(|before| before.deadline() == at);
        let timeout =
            self.timeout.insert(before.unwrap_or_else(|| Box::new(wheel.timeout_at(at, pending()))));
        pin!(coop::unconstrained(timeout)).poll(cx).map(drop)
    }

    /// For a future that has ended. Without budget it lets others run first, once: a task that only ever finds deadlines
    /// ended has to do so, and a future that uses up the budget does not escape its deadline by that.
    pub(crate) fn poll_budget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !mem::replace(&mut self.has_asked_for_budget, true) {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(())
    }
}

pin_project! {
    /// A future that ends with a deadline: see [`Deadline::run`](crate::Deadline::run) and
    /// [`ReusableDeadline::run`](crate::ReusableDeadline::run). `P` waits for the deadline.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Run<F, P> {
        pub(crate) passed: P,
        #[pin]
        pub(crate) future: F,
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
