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
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::deadline::Deadline;
use crate::ended::Ended;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The current deadline of what is polled.
#[derive(Debug)]
struct Current {
    deadline: Deadline,
    limit: Limit,
    /// Hears a cancel of `deadline`, once the future is pending.
    ear: Option<Ear>,
}

impl Drop for Current {
    /// Leaves the ear to the next future, because to register anew costs more than a timer.
    fn drop(&mut self) {
        if let Some(ear) = self.ear.take()
            && let Ok(mut kept) = self.deadline.ear().try_lock()
        {
            kept.get_or_insert(ear);
        }
    }
}

/// What hears a cancel.
#[derive(Debug)]
pub(crate) struct Ear {
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// What a cancel wakes.
    waker: Waker,
}

impl Ear {
    fn new(token: &CancellationToken) -> Self {
        Self { cancelled: Box::pin(token.clone().cancelled_owned()), waker: Waker::noop().clone() }
    }
}

/// A future's own limit.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Also where the deadline is a child that passes at the limit.
    None,
    /// It begins when the future is first found pending, or when somebody asks for the current deadline.
    After(Duration),
    At(Instant),
}

impl Current {
    fn new(deadline: &Deadline, limit: Limit) -> Self {
        Self { deadline: deadline.clone(), limit, ear: None }
    }

    /// When the future's own limit passes. It begins now if it has not begun.
    fn limit(&mut self) -> Option<Instant> {
        if let Limit::After(after) = self.limit {
            self.limit =
                self.deadline.wheel().current_time().checked_add(after).map_or(Limit::None, Limit::At);
        }
        if let Limit::At(limit) = self.limit { Some(limit) } else { None }
    }

    /// The deadline, whose instant is that of the limit at the latest.
    fn deadline(&mut self) -> Deadline {
        if let Some(limit) = self.limit() {
            // The child may be cancelled alone.
            *self = Self::new(&self.deadline.limit_at(limit), Limit::None);
        }
        self.deadline.clone()
    }

    /// When it has to end; `None` if only a cancel ends it.
    fn instant(&mut self) -> Option<Instant> {
        self.limit().into_iter().chain(self.deadline.instant()).min()
    }

    /// Whether the deadline is cancelled. If not, then a cancel wakes the task.
    fn is_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        let token = self.deadline.token();
        let left = || self.deadline.ear().try_lock().ok()?.take();
        let ear = self.ear.get_or_insert_with(|| left().unwrap_or_else(|| Ear::new(token)));
        if ear.waker.will_wake(cx.waker()) {
            return token.is_cancelled();
        }
        ear.waker.clone_from(cx.waker());
        ear.cancelled.as_mut().poll(cx).is_ready()
    }
}

/// Makes `current` the current deadline within `poll`.
fn within<T>(current: &mut Option<Current>, poll: impl FnOnce() -> T) -> T {
    struct Swaps<'a>(&'a mut Option<Current>);

    impl Swaps<'_> {
        fn swap(&mut self) {
            // Where a thread ends, its local is gone, and there is no current deadline.
            _ = CURRENT.try_with(|outer| mem::swap(&mut *outer.borrow_mut(), self.0));
        }
    }

    impl Drop for Swaps<'_> {
        fn drop(&mut self) {
            self.swap();
        }
    }

    let mut swaps = Swaps(current);
    swaps.swap();
    poll()
}

/// What a future under a deadline has of its own: a timer, once it is pending, and an ear for the token.
#[derive(Debug)]
pub(crate) struct Under {
    /// `None` while its future is polled: then it is the current one.
    current: Option<Current>,
    /// Stays where it is when the deadline is extended, and is moved when it fires.
    timer: Option<Timeout<Pending<()>>>,
}

impl Under {
    fn new(deadline: &Deadline, limit: Limit) -> Self {
        Self { current: Some(Current::new(deadline, limit)), timer: None }
    }

    #[cfg(feature = "wire")]
    pub(crate) fn of(deadline: &Deadline) -> Self {
        Self::new(deadline, Limit::None)
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
        // Before the future can spend it: a future that does so does not escape its deadline.
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = within(&mut self.current, || poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        let current = self.current.as_mut().expect("it is back, as its future has returned");
        if !current.is_cancelled(cx) {
            ready!(poll_timer(&mut self.timer, current, cx));
        }
        // A task that only ever finds deadlines ended lets others run.
        if !had_budget || coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(Err(current.deadline.end().unwrap_or(Ended::Limit)))
    }
}

/// Ready when time is up.
fn poll_timer(
    timer: &mut Option<Timeout<Pending<()>>>,
    current: &mut Current,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let Some(armed) = timer else {
            let Some(instant) = current.instant() else { return Poll::Pending };
            *timer = Some(current.deadline.wheel().timeout_at(instant, pending()));
            continue;
        };
        let polled = if coop::has_budget_remaining() {
            Pin::new(&mut *armed).poll(cx)
        } else {
            pin!(coop::unconstrained(&mut *armed)).poll(cx)
        };
        ready!(polled).unwrap_err();
        // First the end, which nobody can take back. Then the instant, because the deadline may have been extended.
        if current.deadline.has_ended() {
            return Poll::Ready(());
        }
        match current.instant() {
            Some(instant) if instant <= armed.deadline() => return Poll::Ready(()),
            Some(instant) => Pin::new(armed).reset(instant),
            None => *timer = None,
        }
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
        Run { under: Under::new(self, Limit::None), future: future.into_future() }
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
        Run { under: Under::new(self, Limit::After(limit)), future: future.into_future() }
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
    pub fn run_current<F: IntoFuture>(
        future: F,
    ) -> impl Future<Output = Result<<F::IntoFuture as Future>::Output, Ended>> + use<F> {
        let (current, future) = (Self::current(), future.into_future());
        async move {
            match current {
                Some(current) => current.run(future).await,
                None => Ok(future.await),
            }
        }
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
        let (mut current, future) = (Some(Current::new(self, Limit::None)), future.into_future());
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
        CURRENT.try_with(|current| current.borrow_mut().as_mut().map(Current::deadline)).ok().flatten()
    }
}
