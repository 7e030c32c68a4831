//! Futures under a deadline, and the deadline of the current task.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Pending, pending, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use timingwheel::Timeout;
use tokio::task::coop;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::deadline::Deadline;
use crate::ended::Ended;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The deadline of a future, which is the current one while the future is polled.
#[derive(Debug)]
struct Current {
    deadline: Deadline,
    /// A limit of the future's own. None where the deadline is a child that passes at the limit.
    limit: Option<Duration>,
    /// When the limit began: the future was found pending, or somebody asked for the current deadline.
    begun: Option<Instant>,
    /// Hears a cancel of `deadline`, once the future is pending.
    ear: Option<Ear>,
}

/// What hears a cancel.
#[derive(Debug)]
pub(crate) struct Ear {
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// What a cancel wakes.
    waker: Waker,
}

impl Drop for Current {
    /// Leaves the ear to the next future, because to register anew costs more than a timer.
    fn drop(&mut self) {
        if self.ear.is_some() {
            // Dropped after the lock is free.
            let _replaced = mem::replace(&mut self.deadline.state().ear, self.ear.take());
        }
    }
}

impl Current {
    fn new(deadline: Deadline, limit: Option<Duration>) -> Self {
        Self { deadline, limit, begun: None, ear: None }
    }

    /// When the future's own limit passes. It begins now if it has not begun.
    fn limit(&mut self) -> Option<Instant> {
        let limit = self.limit?;
        self.begun.get_or_insert_with(|| self.deadline.wheel().current_time()).checked_add(limit)
    }

    /// The deadline, whose instant is that of the limit at the latest. Also returns what it replaces: to drop that may drop a
    /// waker, whose own drop may ask for the current deadline.
    fn deadline(&mut self) -> (Deadline, Option<Self>) {
        // The child may be cancelled alone.
        let child = self.limit().map(|limit| self.deadline.child_until(Some(limit), Ended::Limit));
        let replaced = child.map(|child| mem::replace(self, Self::new(child, None)));
        (self.deadline.clone(), replaced)
    }

    /// Whether the deadline is cancelled. If not, then a cancel wakes the task.
    fn is_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        let token = self.deadline.token();
        let left = || self.deadline.state().ear.take();
        let new = || Box::pin(token.clone().cancelled_owned());
        let new = || Ear { cancelled: new(), waker: Waker::noop().clone() };
        let ear = self.ear.get_or_insert_with(|| left().unwrap_or_else(new));
        if ear.waker.will_wake(cx.waker()) {
            return token.is_cancelled();
        }
        ear.waker.clone_from(cx.waker());
        ear.cancelled.as_mut().poll(cx).is_ready()
    }

    /// Ready when the deadline ends, or the limit. `timer` stays where it is when the deadline is extended.
    fn poll_end(&mut self, timer: &mut Option<Timeout<Pending<()>>>, cx: &mut Context<'_>) -> Poll<Ended> {
        if self.is_cancelled(cx) {
            return Poll::Ready(self.deadline.end().unwrap_or(Ended::Cancelled));
        }
        loop {
            if let Some(armed) = timer {
                ready!(pin!(coop::unconstrained(armed)).poll(cx)).unwrap_err();
                // First the end, which nobody can take back. Then the instant, because the deadline may have been extended.
                if let Some(end) = self.deadline.end() {
                    return Poll::Ready(end);
                }
            }
            let Some(instant) = self.limit().into_iter().chain(self.deadline.instant()).min() else {
                *timer = None;
                return Poll::Pending;
            };
            if timer.as_ref().is_some_and(|armed| instant <= armed.deadline()) {
                return Poll::Ready(Ended::Limit);
            }
            *timer = Some(self.deadline.wheel().timeout_at(instant, pending()));
        }
    }
}

/// Makes `current` the current deadline within `poll`.
fn within<T>(current: &mut Option<Current>, poll: impl FnOnce() -> T) -> T {
    struct Swapped<'a>(&'a mut Option<Current>);

    impl Drop for Swapped<'_> {
        fn drop(&mut self) {
            swap(self.0);
        }
    }

    swap(current);
    let _swapped = Swapped(current);
    poll()
}

/// Where a thread ends, its local is gone, and there is no current deadline.
fn swap(current: &mut Option<Current>) {
    _ = CURRENT.try_with(|outer| mem::swap(&mut *outer.borrow_mut(), current));
}

/// What a future under a deadline has of its own: a timer, once it is pending, and an ear for the token.
#[derive(Debug)]
pub(crate) struct Under {
    /// `None` without a deadline, and while the future is polled.
    current: Option<Current>,
    timer: Option<Timeout<Pending<()>>>,
}

impl Under {
    pub(crate) fn new(deadline: Option<&Deadline>, limit: Option<Duration>) -> Self {
        Self { current: deadline.map(|deadline| Current::new(deadline.clone(), limit)), timer: None }
    }

    /// How the deadline has ended, if it has.
    #[cfg(feature = "wire")]
    pub(crate) fn end(&self) -> Option<Ended> {
        self.current.as_ref().and_then(|current| current.deadline.end())
    }

    /// Polls what is under the deadline, and if that is pending, the deadline.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Ended>> {
        if self.current.is_none() {
            return poll(cx).map(Ok);
        }
        // Before the future can spend it: a future that does so does not escape its deadline.
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = within(&mut self.current, || poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        let current = self.current.as_mut().expect("it is back, as its future has returned");
        let end = ready!(current.poll_end(&mut self.timer, cx));
        // A task that only ever finds deadlines ended lets others run.
        if !had_budget || coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(Err(end))
    }
}

pin_project! {
    /// A future that ends with a deadline: see [`Deadline::run`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited or polled"]
    pub struct Run<F> {
        under: Under,
        #[pin]
        future: F,
    }
}

impl<F> Run<F> {
    pub(crate) fn new(deadline: Option<&Deadline>, limit: Option<Duration>, future: F) -> Self {
        Self { under: Under::new(deadline, limit), future }
    }
}

impl<F: Future> Future for Run<F> {
    type Output = Result<F::Output, Ended>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.under.poll(cx, |cx| this.future.poll(cx))
    }
}

impl Deadline {
    /// Runs `future` until the deadline ends. Meanwhile this is the [current](Self::current) deadline.
    ///
    /// The future is polled first, so an answer that is there comes before the end. What this returns owns its part of the
    /// deadline, so `tokio::spawn(deadline.run(future))` compiles.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`, and leaves the deadline as it is.
    ///
    /// # Errors
    /// [`Ended`], if the deadline ended first.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn run<F: IntoFuture>(&self, future: F) -> Run<F::IntoFuture> {
        Run::new(Some(self), None, future.into_future())
    }

    /// Runs `future` until the deadline ends, or for `limit` if that is shorter: use it for each call that a request makes.
    ///
    /// The limit begins when the future is first found pending. Meanwhile the [current](Self::current) deadline is a child
    /// that passes at the limit. So a call over the wire tells its server the limit.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Errors
    /// As [`run`](Self::run). [`Ended::Limit`] if the limit is up, and the time of the deadline is not.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn run_within<F: IntoFuture>(&self, limit: Duration, future: F) -> Run<F::IntoFuture> {
        Run::new(Some(self), Some(limit), future.into_future())
    }

    /// Runs `future` under the deadline that is [current](Self::current) where this is called, or without one if there is none.
    /// So `tokio::spawn(Deadline::run_current(future))` spawns a task that ends with the request.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Errors
    /// As [`run`](Self::run). None without a current deadline.
    ///
    /// # Panics
    /// As [above](Self#panics).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::future::pending;
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
    ///
    /// let request = TimingWheel::new().deadline_in(Duration::from_secs(2));
    /// let handler = async { tokio::spawn(Deadline::run_current(pending::<()>())) };
    /// let task = request.run(handler).await.unwrap();
    /// assert_eq!(task.await.unwrap(), Err(Ended::Passed));
    /// # }
    /// ```
    pub fn run_current<F: IntoFuture>(future: F) -> Run<F::IntoFuture> {
        Run::new(Self::current().as_ref(), None, future.into_future())
    }

    /// Waits for its end, for a `select!`. Answers why it ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{DeadlineExt, Ended};
    /// use tokio::{select, sync::mpsc};
    ///
    /// let deadline = TimingWheel::new().deadline_in(Duration::from_secs(2));
    /// let (sender, mut parts) = mpsc::channel(8);
    /// sender.send("first").await.unwrap();
    /// let mut found = Vec::new();
    /// let end = loop {
    ///     select! {
    ///         Some(part) = parts.recv() => found.push(part),
    ///         end = deadline.ended() => break end,
    ///     }
    /// };
    /// assert_eq!((found, end), (vec!["first"], Ended::Passed), "what has come in time");
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + Sync + use<> {
        let run = self.run(pending::<Infallible>());
        async {
            let Err(end) = run.await;
            end
        }
    }

    /// Makes this the [current](Self::current) deadline while `future` runs. **It does not end `future`**;
    /// [`run`](Self::run) does both.
    pub fn scope<F: IntoFuture>(
        &self,
        future: F,
    ) -> impl Future<Output = <F::IntoFuture as Future>::Output> + use<F> {
        let (mut current, future) = (Some(Current::new(self.clone(), None)), future.into_future());
        async move {
            let mut future = pin!(future);
            poll_fn(|cx| within(&mut current, || future.as_mut().poll(cx))).await
        }
    }

    /// The deadline that this code [runs](Self::run) under, if any.
    ///
    /// A task that this code spawns has none, unless it [takes it along](Self::run_current).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{Deadline, DeadlineExt};
    ///
    /// // Deep within the handler of a request:
    /// async fn remaining() -> Option<Duration> {
    ///     Deadline::current()?.remaining()
    /// }
    ///
    /// let (second, request) = (Duration::from_secs(1), TimingWheel::new().deadline_in(Duration::from_secs(2)));
    /// assert_eq!(request.run(remaining()).await, Ok(Some(2 * second)));
    /// assert_eq!(request.run_within(second, remaining()).await, Ok(Some(second)));
    /// assert_eq!(remaining().await, None);
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let found = CURRENT.try_with(|current| current.borrow_mut().as_mut().map(Current::deadline));
        found.ok().flatten().map(|(deadline, _replaced)| deadline)
    }
}
