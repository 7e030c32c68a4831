//! Futures under a deadline, and the deadline of the current task.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Pending, pending};
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

/// The current deadline of what is polled.
#[derive(Debug)]
pub(crate) struct Current {
    deadline: Deadline,
    limit: Limit,
    /// Which waker a cancel of `deadline` wakes for certain.
    hearing: WakerId,
}

/// A future's own limit.
#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    /// It begins when the future is first found pending, or when somebody asks for the current deadline.
    After(Duration),
    At(Instant),
    /// The deadline is a child that passes at the limit, because somebody asked for it.
    Child,
}

impl Limit {
    const fn is_child(self) -> bool {
        matches!(self, Self::Child)
    }
}

type WakerId = (usize, usize);

/// That of no waker, because a vtable has an address.
const NOBODY: WakerId = (0, 0);

fn id(waker: &Waker) -> WakerId {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl Current {
    fn new(deadline: &Deadline, limit: Limit) -> Self {
        Self { deadline: deadline.clone(), limit, hearing: NOBODY }
    }

    /// The deadline, whose instant is that of the limit at the latest. The limit begins now if it has not begun.
    fn deadline(&mut self) -> Deadline {
        let limit = match self.limit {
            Limit::None | Limit::Child => None,
            Limit::After(after) => self.deadline.wheel().current_time().checked_add(after),
            Limit::At(instant) => Some(instant),
        };
        if let Some(limit) = limit {
            (self.deadline, self.limit) = (self.deadline.limit_at(limit), Limit::Child);
        }
        self.deadline.clone()
    }

    /// A timer until it has to end; `None` if only a cancel ends it.
    fn timer(&mut self) -> Option<Timeout<Pending<()>>> {
        let (wheel, end) = (self.deadline.wheel(), self.deadline.instant());
        if let Limit::After(after) = self.limit {
            // It reads the clock, which nobody need do again.
            let of_limit = wheel.timeout(after, pending());
            let limit = of_limit.deadline();
            self.limit = Limit::At(limit);
            if end.is_none_or(|end| limit <= end) {
                return Some(of_limit);
            }
        }
        self.instant().map(|instant| wheel.timeout_at(instant, pending()))
    }

    /// When it has to end; `None` if only a cancel ends it.
    fn instant(&self) -> Option<Instant> {
        let limit = if let Limit::At(instant) = self.limit { Some(instant) } else { None };
        limit.into_iter().chain(self.deadline.instant()).min()
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

/// What hears a cancel of a deadline.
#[derive(Debug)]
struct Ear {
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The waker that is registered. The token keeps it, so no other has its address.
    waker: WakerId,
}

impl Ear {
    fn of(deadline: &Deadline) -> Self {
        Self { cancelled: Box::pin(deadline.token().clone().cancelled_owned()), waker: NOBODY }
    }

    /// Whether `deadline` is cancelled. If not, then a cancel wakes the task.
    fn hears(&mut self, deadline: &Deadline, cx: &mut Context<'_>) -> bool {
        let waker = id(cx.waker());
        if mem::replace(&mut self.waker, waker) == waker {
            return deadline.token().is_cancelled();
        }
        self.cancelled.as_mut().poll(cx).is_ready()
    }
}

/// What a future under a deadline has of its own: a timer, once it is pending, and an ear for the token.
#[derive(Debug)]
pub(crate) struct Under {
    /// `None` while its future is polled: then it is the current one.
    current: Option<Current>,
    /// Stays where it is when the deadline is extended, and is moved when it fires.
    timer: Option<Timeout<Pending<()>>>,
    ear: Option<Ear>,
    /// Whether another future of the same task may hear a cancel for this one.
    may_share: bool,
}

impl Under {
    fn new(deadline: &Deadline, limit: Limit) -> Self {
        Self { current: Some(Current::new(deadline, limit)), timer: None, ear: None, may_share: true }
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
        let mut was_child = false;
        if let Some(current) = &mut self.current {
            was_child = current.limit.is_child();
            current.hearing = id(cx.waker());
        }
        if let Poll::Ready(output) = within(&mut self.current, || poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        let current = self.current.as_mut().expect("it is back, as its future has returned");
        if current.limit.is_child() != was_child {
            // The child may be cancelled alone.
            self.ear = None;
        }
        if self.ear.is_none() && !(self.may_share && is_heard(&current.deadline, cx.waker())) {
            self.ear = Some(Ear::of(&current.deadline));
        }
        if !self.ear.as_mut().is_some_and(|ear| ear.hears(&current.deadline, cx)) {
            ready!(poll_timer(&mut self.timer, current, cx));
        }
        // A task that only ever finds deadlines ended lets others run.
        if !had_budget || coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(Err(current.deadline.end().unwrap_or(Ended::Limit)))
    }
}

/// Whether a cancel of `deadline` wakes this task for certain, because it polls this within a future that then ends with the
/// same deadline. A future with another waker, as in a `FuturesUnordered`, may be polled elsewhere when that has ended.
fn is_heard(deadline: &Deadline, waker: &Waker) -> bool {
    let is_heard = |outer: &Current| outer.hearing == id(waker) && outer.deadline.ends_with(deadline);
    CURRENT.try_with(|outer| outer.borrow().as_ref().is_some_and(is_heard)).unwrap_or(false)
}

/// Ready when time is up.
fn poll_timer(
    timer: &mut Option<Timeout<Pending<()>>>,
    current: &mut Current,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let armed = match timer {
            Some(armed) => armed,
            None => match current.timer() {
                Some(armed) => timer.insert(armed),
                None => return Poll::Pending,
            },
        };
        let polled = if coop::has_budget_remaining() {
            Pin::new(&mut *armed).poll(cx)
        } else {
            pin!(coop::unconstrained(&mut *armed)).poll(cx)
        };
        ready!(polled).unwrap_err();
        // It looks again, because the deadline may have been extended.
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

pin_project! {
    /// The future of [`Deadline::scope`].
    struct Scope<F> {
        current: Option<Current>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        within(this.current, || this.future.poll(cx))
    }
}

impl Deadline {
    /// Runs `future` until the deadline ends. Meanwhile this is the [current](Self::current) deadline.
    ///
    /// The future is polled first, so an answer that is there comes before the end. What this returns owns its part of the
    /// deadline, so `tokio::spawn(deadline.run(future))` compiles.
    ///
    /// Where the same task runs one future under a deadline within another under the same one, a cancel ends the outer one.
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
    /// As [`run`](Self::run). [`Ended::Limit`] if the limit came first, and the deadline goes on.
    ///
    /// # Panics
    /// As [above](Self#panics).
    pub fn run_within<F: IntoFuture>(&self, limit: Duration, future: F) -> Run<F::IntoFuture> {
        let limit = if limit == Duration::MAX { Limit::None } else { Limit::After(limit) };
        Run { under: Under::new(self, limit), future: future.into_future() }
    }

    /// Runs `future` until the deadline ends that is [current](Self::current) where this is called, if there is one. So
    /// `tokio::spawn(Deadline::run_current(future))` spawns a task that ends with the request.
    ///
    /// # Errors
    /// As [`run`](Self::run). None without a current deadline.
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
        let mut run = self.run(pending::<Infallible>());
        run.under.may_share = false;
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
        Scope { current: Some(Current::new(self, Limit::None)), future: future.into_future() }
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
