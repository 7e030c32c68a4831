//! `wheel.timeout(d, future)`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use crate::error::{Elapsed, Error, TryTimeoutError};
use crate::handle::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::timers::tolerance::Tolerance;

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
    /// When the time is up the future is not dropped but left where it is, inside the [`Timeout`]; `.await` drops
    /// both. Then whatever the future had under way stops, unless it was spawned as a task of its own. Dropping
    /// the timeout drops the future and removes the timer, as dropping a [`Sleep`] does.
    ///
    /// # Errors
    /// [`Elapsed`] if the time is up before the future is ready, if the wheel ends before that, or if the wheel is
    /// full; [`Elapsed::reason`] tells which.
    ///
    /// # Panics
    /// Only if `future` does, for example if it awaits a [`Sleep`] of the same wheel when that wheel ends.
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

    /// As [`timeout`](Self::timeout), but returns an error at once if the timer cannot run.
    ///
    /// On a wheel with a bound the timer is registered by this call, so it has its permit until it fires.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending. The
    /// error has the future in it.
    pub fn try_timeout<F: IntoFuture>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<Timeout<F::IntoFuture>, TryTimeoutError<F>> {
        Timeout::try_new(self.try_sleep(duration), future)
    }

    /// As [`timeout_at`](Self::timeout_at), but returns an error at once if the timer cannot run.
    ///
    /// # Errors
    /// As [`try_timeout`](Self::try_timeout).
    pub fn try_timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Result<Timeout<F::IntoFuture>, TryTimeoutError<F>> {
        Timeout::try_new(self.try_sleep_until(deadline), future)
    }
}

pin_project! {
    /// The future of [`TimingWheel::timeout`] and [`TimingWheel::timeout_at`].
    #[must_use = "a timeout does nothing unless it is awaited or polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        deadline: Sleep,
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

impl State {
    /// The deadline is another now.
    const fn moved(&mut self) {
        if matches!(self, Self::Elapsed) {
            *self = Self::Waiting;
        }
    }
}

impl<F> Timeout<F> {
    pub(crate) fn new(deadline: Sleep, future: impl IntoFuture<IntoFuture = F>) -> Self
    where
        F: Future,
    {
        Self { future: future.into_future(), deadline, state: State::Waiting }
    }

    pub(crate) fn try_new<I: IntoFuture<IntoFuture = F>>(
        deadline: Result<Sleep, Error>,
        future: I,
    ) -> Result<Self, TryTimeoutError<I>>
    where
        F: Future,
    {
        match deadline {
            Ok(deadline) => Ok(Self::new(deadline, future)),
            Err(error) => Err(TryTimeoutError::new(error, future)),
        }
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

    /// The future within, now without a deadline.
    #[must_use]
    pub fn into_inner(self) -> F {
        self.future
    }

    /// The instant at which the time is up.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline.deadline()
    }

    /// Lets the time be up later, by less than `tolerance`, as [`Sleep::with_tolerance`] does for a sleep.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{future, time::Duration};
    /// use timingwheel::{TimingWheel, Tolerance};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let call = wheel.timeout(Duration::from_secs(60), future::pending::<()>());
    /// assert!(call.with_tolerance(Tolerance::share(0.05)).await.is_err());
    /// assert!((60..63).contains(&start.elapsed().as_secs()));
    /// # }
    /// ```
    pub fn with_tolerance(self, tolerance: Tolerance) -> Self {
        Self { deadline: self.deadline.with_tolerance(tolerance), ..self }
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
        let this = self.project();
        Pin::new(this.deadline).reset(deadline);
        this.state.moved();
    }

    /// Moves the deadline to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](crate::Sleep::deadline) it never comes.
    pub fn reset_after(self: Pin<&mut Self>, after: Duration) {
        let this = self.project();
        Pin::new(this.deadline).reset_after(after);
        this.state.moved();
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            *this.state = State::Returned;
            return Poll::Ready(Ok(output));
        }
        let elapsed = ready!(poll_deadline(this.deadline, had_budget, cx));
        *this.state = State::Elapsed;
        Poll::Ready(Err(elapsed))
    }
}

/// What does not depend on the type of what has been polled before, a future or a stream. `had_budget` is from before
/// that poll.
pub(crate) fn poll_deadline(deadline: &mut Sleep, had_budget: bool, cx: &mut Context<'_>) -> Poll<Elapsed> {
    // A task that only ever finds its timeouts elapsed has to let others run. First, so that a timer is refused only when its
    // task can be told.
    if !had_budget {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    let result = ready!(deadline.poll_try_wait(cx));
    // If it was the future that spent the rest of the budget, it cannot escape its deadline by that.
    if coop::has_budget_remaining() {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    Poll::Ready(match result {
        Ok(()) => Elapsed::default(),
        Err(error) => Elapsed::because(error),
    })
}

/// Terminated once it has returned; after [`Elapsed`], until it is moved to another deadline.
impl<F: Future> FusedFuture for Timeout<F> {
    fn is_terminated(&self) -> bool {
        self.state != State::Waiting
    }
}

impl<F: fmt::Debug> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { future, deadline, state } = self;
        f.debug_struct("Timeout")
            .field("future", future)
            .field("deadline", deadline)
            .field("state", state)
            .finish()
    }
}
