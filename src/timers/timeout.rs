//! `wheel.timeout(d, future)` and `future.timeout_on(&wheel, d)`.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::coop;
use tokio::time::{self, Instant};

use crate::error::{Elapsed, Error};
use crate::handle::TimingWheel;
use crate::timers::sleep::Sleep;

impl TimingWheel {
    /// Awaits `future`, for at most `duration` from now.
    ///
    /// The future is polled first, and then the deadline. So a future that is ready at once never touches the wheel,
    /// whatever `duration` is. The deadline is polled even if the future has used up the task's cooperative budget.
    /// With a `duration` of more than [292 years](crate::Sleep::deadline) it never elapses.
    ///
    /// # Precision
    /// As [`sleep`](Self::sleep).
    ///
    /// # Cancel safety
    /// When the time is up, the future stays in the [`Timeout`] until that is dropped; `.await` drops it at once. The
    /// future's work then stops, except tasks that it has spawned. Dropping
    /// the timeout drops the future and removes the timer, as dropping a [`Sleep`] does.
    ///
    /// # Errors
    /// [`Elapsed`] if the time is up before the future is ready.
    ///
    /// A wheel that has ended or is full changes nothing about that: the timeout then waits by one of tokio's timers,
    /// with tokio's precision, until its time is up or it is moved. Such a timer is not counted as pending.
    /// [`try_sleep(d)?.limiting(future)`](Sleep::limiting) refuses instead.
    ///
    /// # Panics
    /// If `future` does, for example if it awaits a [`Sleep`] of the same wheel when that wheel ends.
    ///
    /// Also if the timeout has to wait, its wheel has ended or is full, and tokio has no timer for it. Outside of a tokio
    /// runtime the message names the wheel and the line of the `.await`. On a runtime without `enable_time` it is tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::{future, time::Duration};
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// assert_eq!(wheel.timeout(Duration::ZERO, async { "ready" }).await, Ok("ready"));
    /// assert!(wheel.timeout(Duration::from_millis(5), future::pending::<()>()).await.is_err());
    /// # }
    /// ```
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(duration), future)
    }

    /// Awaits `future`, until `deadline` at the latest, as [`timeout`](Self::timeout) does.
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep_until(deadline), future)
    }
}

impl Sleep {
    /// Awaits `future` until this sleep's deadline at the latest, as [`TimingWheel::timeout`] does.
    ///
    /// A sleep of [`try_sleep`](TimingWheel::try_sleep) has its place on a wheel with a bound before the future begins:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::{future, time::Duration};
    /// use timingwheel::{Error, TimingWheel};
    ///
    /// async fn call(wheel: &TimingWheel) -> Result<&'static str, Error> {
    ///     let limit = wheel.try_sleep(Duration::from_secs(1))?;
    ///     Ok(limit.limiting(future::ready("answer")).await.unwrap_or("too late"))
    /// }
    ///
    /// let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
    /// assert!(call(&wheel).await.unwrap_err().is_at_capacity());
    /// # }
    /// ```
    pub fn limiting<F: IntoFuture>(self, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self, future)
    }
}

pin_project! {
    /// The future of [`TimingWheel::timeout`] and [`TimingWheel::timeout_at`].
    #[derive(Debug)]
    #[must_use = "a timeout does nothing unless it is awaited or polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        deadline: SureSleep,
        state: State,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// The time was up. Moved to another deadline it waits again.
    Elapsed,
    /// The future has returned, and must not be polled again.
    Returned,
}

impl<F> Timeout<F> {
    pub(crate) fn new(deadline: Sleep, future: impl IntoFuture<IntoFuture = F>) -> Self
    where
        F: Future,
    {
        Self { future: future.into_future(), deadline: SureSleep::new(deadline), state: State::Waiting }
    }

    /// The future within.
    #[must_use]
    pub const fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future within.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future within, pinned.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().future
    }

    /// The future within, now without a deadline.
    #[must_use]
    pub fn into_inner(self) -> F {
        self.future
    }

    /// The instant at which the time is up.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline.sleep.deadline()
    }

    /// Lets the time be up later, by less than `tolerance`, as [`Sleep::with_tolerance`] does.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a timeout that is made there.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{future, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let call = wheel.timeout(Duration::from_secs(60), future::pending::<()>());
    /// assert!(call.with_tolerance(Duration::from_secs(3)).await.is_err());
    /// assert!((60..63).contains(&start.elapsed().as_secs()));
    /// # }
    /// ```
    #[track_caller]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { deadline: SureSleep::new(self.deadline.sleep.with_tolerance(tolerance)), ..self }
    }

    /// Moves the deadline: a call that shows progress gets more time. As cheap as [`Sleep::reset`].
    ///
    /// A timeout that has returned [`Elapsed`] may be moved and polled again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let download = wheel.sleep(Duration::from_secs(15));
    /// let mut call = pin!(wheel.timeout(Duration::from_secs(10), download));
    ///
    /// assert!(call.as_mut().await.is_err());
    /// call.as_mut().reset(Instant::now() + Duration::from_secs(10));
    /// assert!(call.await.is_ok());
    /// # }
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.move_by(|sleep| Pin::new(sleep).reset(deadline));
    }

    /// Moves the deadline to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](crate::Sleep::deadline) it never comes.
    pub fn reset_after(self: Pin<&mut Self>, after: Duration) {
        self.move_by(|sleep| sleep.reset_after(after));
    }

    fn move_by(self: Pin<&mut Self>, to_move: impl FnOnce(&mut Sleep)) {
        let this = self.project();
        if *this.state == State::Elapsed {
            *this.state = State::Waiting;
        }
        // Last, as a waker may panic there.
        this.deadline.move_by(to_move);
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            *this.state = State::Returned;
            return Poll::Ready(Ok(output));
        }
        ready!(this.deadline.poll(had_budget, cx));
        *this.state = State::Elapsed;
        Poll::Ready(Err(Elapsed::default()))
    }
}

/// Terminated once it has returned; after [`Elapsed`], until it is moved to another deadline.
impl<F: Future> FusedFuture for Timeout<F> {
    fn is_terminated(&self) -> bool {
        self.state != State::Waiting
    }
}

/// Timeouts as methods of every [`Future`].
///
/// The names end in `_on`, so that you can import this trait beside the `FutureExt` of tokio-util and of futures. For the
/// wheel of the current runtime pass [`time::wheel()`](crate::time::wheel).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::{FutureTimeExt, TimingWheel, time};
/// use tokio::sync::oneshot;
///
/// let wheel = TimingWheel::new();
/// let (reply, call) = oneshot::channel();
/// reply.send("hello").unwrap();
/// assert_eq!(call.timeout_on(&wheel, Duration::from_secs(3)).await, Ok(Ok("hello")));
///
/// let (_reply, call) = oneshot::channel::<()>();
/// assert!(call.timeout_on(&time::wheel(), Duration::from_millis(5)).await.is_err());
/// # }
/// ```
pub trait FutureTimeExt: Future + Sized {
    /// Awaits this future, for at most `duration` from now. Precision, cancel safety, errors and panics are those of
    /// [`TimingWheel::timeout`].
    fn timeout_on(self, wheel: &TimingWheel, duration: Duration) -> Timeout<Self> {
        wheel.timeout(duration, self)
    }

    /// Awaits this future, until `deadline` at the latest, as [`TimingWheel::timeout_at`] does.
    fn timeout_at_on(self, wheel: &TimingWheel, deadline: Instant) -> Timeout<Self> {
        wheel.timeout_at(deadline, self)
    }
}

impl<F: Future> FutureTimeExt for F {}

/// A sleep that no wheel can refuse. One that cannot run on its wheel, which has ended or is full, waits by tokio's timer.
pub(crate) struct SureSleep {
    pub(crate) sleep: Sleep,
    /// Until it is ready, or until the deadline is moved: then the wheel is asked again.
    by_tokio: Option<Box<ByTokio>>,
}

struct ByTokio {
    sleep: Pin<Box<time::Sleep>>,
    runtime: Id,
    waker: Waker,
}

impl SureSleep {
    pub(crate) const fn new(sleep: Sleep) -> Self {
        Self { sleep, by_tokio: None }
    }

    /// Moves the deadline. A task that waits by tokio's timer is woken, so that it asks the wheel.
    pub(crate) fn move_by(&mut self, to_move: impl FnOnce(&mut Sleep)) {
        let by_tokio = self.by_tokio.take();
        to_move(&mut self.sleep);
        // Last, as it may panic.
        if let Some(ByTokio { waker, .. }) = by_tokio.map(|by_tokio| *by_tokio) {
            waker.wake();
        }
    }

    /// The sleep, whose deadline the caller moves within a poll of the task that waits, which need not be woken.
    pub(crate) fn moved_in_poll(&mut self) -> &mut Sleep {
        self.by_tokio = None;
        &mut self.sleep
    }

    /// Polls the deadline of a future or a stream that was pending.
    ///
    /// `had_budget` tells whether the task had budget before it polled that future or stream. If so, the deadline
    /// counts even if that poll spent the rest. If not, this is pending: a task that only ever finds its timeouts
    /// elapsed has to let others run.
    ///
    /// # Panics
    /// If the wheel cannot run it and tokio has no timer here.
    #[inline]
    #[track_caller]
    pub(crate) fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
        if !had_budget {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        if let Some(by_tokio) = &mut self.by_tokio {
            ready!(by_tokio.poll(cx));
        } else if let Err(error) = ready!(self.sleep.poll_unconstrained(cx)) {
            ready!(self.begin_by_tokio(error).poll(cx));
        }
        if coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(())
    }

    #[cold]
    #[track_caller]
    fn begin_by_tokio(&mut self, error: Error) -> &mut ByTokio {
        let Ok(current) = Handle::try_current() else {
            panic!(
                "a time limit on the wheel `{}` cannot wait: {error}; and tokio has no timer for it, because this thread \
                 is not within a tokio runtime",
                self.sleep.shard().wheel_name()
            )
        };
        // Not in a closure, in which a panic of tokio's would not name the caller.
        let sleep = Box::pin(time::sleep_until(self.sleep.deadline()));
        let (runtime, waker) = (current.id(), Waker::noop().clone());
        self.by_tokio.insert(Box::new(ByTokio { sleep, runtime, waker }))
    }
}

impl ByTokio {
    #[track_caller]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Ok(current) = Handle::try_current()
            && current.id() != self.runtime
        {
            // The task has moved. The runtime that it has left may have ended, and then to poll its timer would panic.
            self.runtime = current.id();
            self.sleep.set(time::sleep_until(self.sleep.deadline()));
        }
        self.waker.clone_from(cx.waker());
        pin!(coop::unconstrained(self.sleep.as_mut())).poll(cx)
    }
}

impl fmt::Debug for SureSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sleep.fmt(f)
    }
}
