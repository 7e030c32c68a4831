//! [`ReusableDeadline`]: for a connection that has one operation at a time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::ended::Ended;
use crate::run::{Own, Run};
use crate::sync::{Sleep, TimingWheel};
use crate::tree::{Limit, instant_in};

/// The deadlines of a connection that has one operation at a time, on one timer that stays armed between them.
///
/// [`start_in`](Self::start_in) begins an operation, and [`run_in`](Self::run_in) bounds each of its reads and writes by
/// the operation's deadline and by a limit of its own. The timer does not move for a later limit. It fires at the old
/// time, finds that nothing is due, and is armed anew if a future waits. So a connection with limits of 5 s takes a lock
/// only about every 5 s, allocates nothing, and writes no memory that other tasks read. This holds while one task polls it
/// and its limits are alike: a shorter limit or another task moves the timer. It is the cheapest form of a limit.
///
/// Between operations the timer keeps the waker of the task that waited last, until it fires or this is dropped.
///
/// It cannot be cloned, cancelled or given children. If the operation belongs to a request, start it at the earlier of both
/// ends, and let the request's [`Deadline`](crate::Deadline) [run](crate::Deadline::run) it, if a cancelled request has
/// to end it.
///
/// # Precision
/// As a [`Deadline`](crate::Deadline#precision), also with [a wheel that is full or has
/// ended](crate::Deadline#a-wheel-that-is-full-or-has-ended).
///
/// # Panics
/// Polling a future under it panics if the wheel has refused the timer and tokio has no timers there.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::{Ended, ReusableDeadline};
/// use tokio::time::sleep;
///
/// let each = Duration::from_secs(2);
/// let mut deadline = ReusableDeadline::new(&TimingWheel::new());
/// deadline.start_in(Duration::from_secs(3));
/// assert!(deadline.run_in(each, sleep(Duration::from_millis(1500))).await.is_ok());
/// assert_eq!(deadline.run_in(each, sleep(Duration::from_millis(1600))).await, Err(Ended::Passed));
/// // The next operation.
/// deadline.start_in(Duration::from_secs(3));
/// assert!(deadline.run(sleep(Duration::from_millis(2500))).await.is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct ReusableDeadline {
    wheel: TimingWheel,
    /// When the operation ends.
    end: Instant,
    /// Fires no later than a future under it has to end.
    timer: Sleep,
}

impl ReusableDeadline {
    /// On `wheel`. Until an operation [starts](Self::start_in) there is no deadline. Nothing is armed until a future is
    /// pending.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        let timer = wheel.sleep(Duration::MAX);
        Self { wheel: wheel.clone(), end: timer.deadline(), timer }
    }

    /// Begins an operation, whose deadline is `after` from now. With more than
    /// [292 years](timingwheel::Sleep::deadline) it never passes.
    pub fn start_in(&mut self, after: Duration) {
        self.start_at(instant_in(&self.wheel, after));
    }

    /// Begins an operation, whose deadline is at `instant`.
    pub const fn start_at(&mut self, instant: Instant) {
        self.end = instant;
    }

    /// The instant at which the operation's deadline passes.
    #[must_use]
    pub const fn instant(&self) -> Instant {
        self.end
    }

    /// Runs `future` until the operation's deadline, as [`Deadline::run`](crate::Deadline::run) does.
    ///
    /// # Errors
    /// [`Ended::Passed`] if the deadline came first.
    pub fn run<F: IntoFuture>(&mut self, future: F) -> Run<F::IntoFuture, ReusablePassed<'_>> {
        Run { passed: ReusablePassed::new(self, Limit::None), future: future.into_future() }
    }

    /// Runs `future` until the operation's deadline, or for `limit` from when it is first found pending, if that is
    /// shorter.
    ///
    /// # Errors
    /// [`Ended::Passed`] if the deadline or the limit came first.
    pub fn run_in<F: IntoFuture>(
        &mut self,
        limit: Duration,
        future: F,
    ) -> Run<F::IntoFuture, ReusablePassed<'_>> {
        Run { passed: ReusablePassed::new(self, Limit::After(limit)), future: future.into_future() }
    }
}

/// Waits for the end of an operation: see [`ReusableDeadline::run`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited or polled"]
pub struct ReusablePassed<'a> {
    deadline: &'a mut ReusableDeadline,
    limit: Limit,
    own: Own,
}

impl<'a> ReusablePassed<'a> {
    fn new(deadline: &'a mut ReusableDeadline, limit: Limit) -> Self {
        Self { deadline, limit, own: Own::default() }
    }
}

impl Future for ReusablePassed<'_> {
    type Output = Ended;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let Self { deadline: ReusableDeadline { wheel, end, timer }, limit, own } = &mut *self;
        let at = match *limit {
            Limit::At(at) => at,
            Limit::After(after) => instant_in(wheel, after).min(*end),
            Limit::None => *end,
        };
        *limit = Limit::At(at);
        if timer.deadline() > at {
            Pin::new(&mut *timer).reset(at);
        }
        loop {
            match ready!(timer.poll_unconstrained(cx)) {
                // It was armed for an earlier operation.
                Ok(()) if timer.deadline() < at => Pin::new(&mut *timer).reset(at),
                Ok(()) => break,
                Err(_) => break ready!(own.poll_until(wheel, at, cx)),
            }
        }
        ready!(own.poll_budget(cx));
        Poll::Ready(Ended::Passed)
    }
}
