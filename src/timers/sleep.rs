//! `wheel.sleep(d)`: the future that holds a timer. All other futures, streams and guards hold sleeps.

mod state;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::future::FusedFuture;
use tokio::task::coop;
use tokio::time::Instant;

use self::state::{Other, Phase, State};
use crate::engine::shard::Shard;
use crate::error::Error;
use crate::handle::TimingWheel;
use crate::platform::clock::{FromNow, has_test_util, instant, nanos};
use crate::platform::wakers::WakerId;
use crate::runtime_wheel::with_current;
use crate::wheel::Nanos;

impl TimingWheel {
    /// Waits for `duration` from now.
    ///
    /// The deadline is fixed by this call; the timer is armed when the future is first polled. With a
    /// `duration` of more than [292 years](Sleep::deadline) it waits for ever.
    ///
    /// # Precision
    /// Never early. [Precision](TimingWheel#precision) says how late. A `duration` of zero is ready at the first poll.
    ///
    /// # Cancel safety
    /// Dropping the future removes the timer, and nothing else is lost.
    ///
    /// The wheel may keep the memory and the waker of a dropped timer, to save work: of up to 14 dropped timers in each
    /// shard, for at most a second in which the runtime runs. Another thread may then drop that waker, and contains its
    /// panic. On a wheel with a bound, and where the clock can be paused, nothing is kept.
    ///
    /// # Panics
    /// This call never panics. Awaiting the future panics if its wheel has ended before the deadline, or if
    /// [`max_pending`](crate::Builder::max_pending) timers are pending when it is first polled; the message names the line
    /// of the `.await`. [`try_sleep`](Self::try_sleep) and [`Sleep::wait`] return errors instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = tokio::time::Instant::now();
    /// wheel.sleep(Duration::from_millis(5)).await;
    /// assert!(start.elapsed() >= Duration::from_millis(5));
    /// # }
    /// ```
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let shard = self.shard().clone();
        let now = shard.clock.now();
        let state = State::idle(now.after(duration), Some(now), None);
        Sleep { timer: Timer::OfWheel { shard, state } }
    }

    /// Waits until `deadline`, as [`sleep`](Self::sleep) does. If it has passed, the sleep is ready at the first poll.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self.shard().clone(), nanos(deadline))
    }

    /// A timer without a deadline. Its owner moves it to one before the first poll.
    pub(crate) fn sleep_unset(&self) -> Sleep {
        Sleep::until(self.shard().clone(), Nanos::MAX)
    }

    /// As [`sleep`](Self::sleep), but returns an error at once if the timer cannot run.
    ///
    /// On a wheel with a bound the timer is armed by this call, so it has its permit until it fires. If the sleep
    /// is reset after that, it needs another permit.
    ///
    /// # Errors
    /// If the wheel has ended, or if its [`max_pending`](crate::Builder::max_pending) timers are pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    /// let first = wheel.try_sleep(Duration::from_secs(1)).unwrap();
    /// let refused = wheel.try_sleep(Duration::from_secs(1)).unwrap_err();
    /// assert!(refused.is_at_capacity());
    ///
    /// drop(first);
    /// assert!(wheel.try_sleep(Duration::from_secs(1)).is_ok());
    /// # }
    /// ```
    pub fn try_sleep(&self, duration: Duration) -> Result<Sleep, Error> {
        self.sleep(duration).try_admit()
    }

    /// As [`sleep_until`](Self::sleep_until), but returns an error at once if the timer cannot run.
    ///
    /// # Errors
    /// As [`try_sleep`](Self::try_sleep).
    pub fn try_sleep_until(&self, deadline: Instant) -> Result<Sleep, Error> {
        self.sleep_until(deadline).try_admit()
    }
}

/// The future of [`TimingWheel::sleep`](crate::TimingWheel::sleep) and
/// [`TimingWheel::sleep_until`](crate::TimingWheel::sleep_until).
///
/// It may be sent to other threads, and polled and dropped within or outside of any runtime. A sleep made by
/// [`time::sleep`](crate::time::sleep) is an exception: its first poll panics outside of a runtime.
///
/// A sleep is `Unpin`, because nothing points at it. So `&mut sleep` can be awaited again and again, as in a `select!`
/// loop. A sleep that is polled again after it was ready is ready again.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    timer: Timer,
}

enum Timer {
    /// A sleep [by name](crate::time::sleep) that has needed no wheel so far. Its deadline is `after` later than `from`.
    ByName {
        from: Instant,
        after: Duration,
    },
    OfWheel {
        shard: Arc<Shard>,
        state: State,
    },
}

impl Timer {
    /// The timer of a sleep by name, now that it needs a wheel.
    #[inline(never)]
    #[track_caller]
    fn found(from: Instant, after: Duration) -> Self {
        let (shard, made) = (with_current(|wheel| wheel.shard().clone()), nanos(from));
        // The clock by which it was made may be paused, and the wheel's another one.
        let is_known = !after.is_zero() && !has_test_util();
        Self::OfWheel { shard, state: State::idle(made.after(after), is_known.then_some(made), None) }
    }
}

impl Sleep {
    /// Waits for `after` from `from`, on the wheel of the runtime that first finds it pending.
    #[inline]
    pub(crate) const fn by_name(from: Instant, after: Duration) -> Self {
        Self { timer: Timer::ByName { from, after } }
    }

    const fn until(shard: Arc<Shard>, deadline: Nanos) -> Self {
        let state = State::idle(deadline, None, None);
        Self { timer: Timer::OfWheel { shard, state } }
    }

    /// The shard. Only for a sleep that was made by a wheel, or that was found pending.
    #[inline]
    pub(crate) fn shard(&self) -> &Arc<Shard> {
        match &self.timer {
            Timer::OfWheel { shard, .. } => shard,
            Timer::ByName { .. } => unreachable!("it needed no wheel so far"),
        }
    }

    /// The shard and the state. A sleep by name gets a shard here if it has none.
    #[inline(always)]
    #[track_caller]
    fn on_wheel(&mut self) -> (&Arc<Shard>, &mut State) {
        if let Timer::ByName { from, after } = self.timer {
            self.timer = Timer::found(from, after);
        }
        match &mut self.timer {
            Timer::OfWheel { shard, state } => (shard, state),
            Timer::ByName { .. } => unreachable!("it has just got a shard"),
        }
    }

    /// The instant at which this is ready.
    ///
    /// A deadline more than 292 years after the start of the process never comes. This then returns the last instant that
    /// a wheel can tell apart.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        instant(self.deadline_nanos())
    }

    #[inline]
    pub(crate) fn deadline_nanos(&self) -> Nanos {
        match &self.timer {
            Timer::OfWheel { state, .. } => state.deadline(),
            Timer::ByName { from, after } => nanos(*from).after(*after),
        }
    }

    /// Whether the deadline has come, as far as the wheel knows: a turn fired the timer, or a poll found it
    /// due. A sleep that was never polled has not elapsed, whatever its deadline.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        let Timer::OfWheel { shard, state } = &self.timer else { return false };
        match state.phase() {
            Some(phase) => phase == Phase::Elapsed,
            None => shard.has_come_to(state.deadline()),
        }
    }
}

// Polling.
impl Sleep {
    /// Waits as the future does, but returns an error where that would panic.
    ///
    /// # Cancel safety
    /// Nothing is lost. The sleep can be awaited again.
    ///
    /// # Errors
    /// If the wheel ended before the deadline, or if the wheel was full.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::new();
    /// let mut sleep = wheel.sleep(Duration::from_secs(60));
    /// tokio::select! {
    ///     result = sleep.wait() => assert!(result.unwrap_err().is_shutdown()),
    ///     () = async { wheel.shutdown(); std::future::pending().await } => {}
    /// }
    /// # }
    /// ```
    pub async fn wait(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    /// Polls as the future does, but returns an error where that would panic.
    ///
    /// If the sleep is ready, this spends a unit of the task's cooperative budget. Without budget it is pending, and wakes
    /// the task. So a loop over sleeps that are due lets other tasks run. With a waker that is not the task's, use
    /// [`poll_unconstrained`](Self::poll_unconstrained).
    ///
    /// # Errors
    /// If the wheel ended before the deadline, or if the wheel was full.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there.
    #[inline]
    #[track_caller]
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.waits_for(cx.waker()) {
            return Poll::Pending;
        }
        // First, so that a timer is refused only when its task can be told.
        if !coop::has_budget_remaining() {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let result = ready!(self.poll_changed(cx.waker()));
        ready!(coop::poll_proceed(cx)).made_progress();
        Poll::Ready(result)
    }

    /// Polls as [`poll_wait`](Self::poll_wait) does, but has nothing to do with the task's cooperative budget. For wakers of
    /// your own: what they wake is not the task that polls here.
    ///
    /// With such a waker for each timer, one task can look after any number of timers. It has to let other tasks run
    /// itself, for instance by [`consume_budget`](tokio::task::coop::consume_budget).
    ///
    /// # Errors
    /// If the wheel ended before the deadline, or if the wheel was full.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there.
    #[inline]
    #[track_caller]
    pub fn poll_unconstrained(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.waits_for(cx.waker()) { Poll::Pending } else { self.poll_changed(cx.waker()) }
    }

    /// Whether nothing has happened since a poll by the same waker.
    #[inline]
    fn waits_for(&self, current: &Waker) -> bool {
        match &self.timer {
            Timer::OfWheel { shard, state: State::Armed { deadline, waker, .. } } => {
                waker.is_of(current) && !shard.has_reached(*deadline)
            }
            _ => false,
        }
    }

    /// Polls where something may have happened.
    #[inline(never)]
    #[track_caller]
    fn poll_changed(&mut self, waker: &Waker) -> Poll<Result<(), Error>> {
        let (shard, state) = self.on_wheel();
        let result = match *state {
            State::Other(Other::Idle { phase: Phase::Elapsed, .. }) => Ok(()),
            State::Other(Other::Idle { .. }) => ready!(state.arm(shard, waker)),
            State::Armed { key, deadline, .. } | State::Other(Other::Tolerant { key, deadline, .. }) => {
                if !shard.has_reached(deadline) {
                    let current = waker.clone();
                    let id = WakerId::of(&current);
                    if let Ok(before) = shard.set_waker(key, current) {
                        *state = State::armed(deadline, key, id, state.grid());
                        // Last, as it may panic: what is remembered has to be true then.
                        drop(before);
                        return Poll::Pending;
                    }
                }
                shard.finish(key, deadline)
            }
        };
        *state = match result {
            Ok(()) => State::elapsed(state.deadline(), state.grid()),
            Err(_) => State::idle(state.deadline(), None, state.grid()),
        };
        Poll::Ready(result)
    }

    /// Refuses what could not run. With a bound the timer is armed, for no task as yet.
    pub(crate) fn try_admit(mut self) -> Result<Self, Error> {
        let (shard, state) = self.on_wheel();
        if shard.has_ended() {
            return Err(Error::shutdown());
        }
        if shard.bound.is_some()
            && let Poll::Ready(result) = state.arm(shard, Waker::noop())
        {
            // One whose deadline has passed needs no permit.
            result?;
        }
        Ok(self)
    }
}

// Moving.
impl Sleep {
    /// Moves the deadline, whether it has come or not, and keeps the task that waits for it.
    ///
    /// A timer that is moved later stays where it is in the wheel until that place comes up, so this is cheap enough to
    /// be called for each message of a connection. If the new deadline has passed, the timer wakes its task at once, or
    /// by the next turn of the wheel. In the latter case the next poll may still find it pending. An overdue timer may
    /// still wait for its tick to end.
    ///
    /// If the sleep is not pinned, call `Pin::new(&mut sleep).reset(deadline)`.
    ///
    /// A sleep [with a tolerance](Self::with_tolerance) keeps it, also for the new deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use timingwheel::TimingWheel;
    /// use tokio::{select, sync::mpsc, time::Instant};
    ///
    /// const IDLE: Duration = Duration::from_secs(60);
    ///
    /// let (sender, mut messages) = mpsc::channel(8);
    /// for message in ["hello", "bye"] {
    ///     sender.send(message).await.unwrap();
    /// }
    /// let mut idle = pin!(TimingWheel::new().sleep(IDLE));
    /// loop {
    ///     select! {
    ///         Some(_message) = messages.recv() => idle.as_mut().reset(Instant::now() + IDLE),
    ///         () = idle.as_mut() => break, // Nothing for a minute.
    ///     }
    /// }
    /// # }
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let to = nanos(deadline);
        match &mut self.get_mut().timer {
            Timer::ByName { from, after } => (*from, *after) = (deadline, Duration::ZERO),
            Timer::OfWheel { shard, state } => state.move_to(shard, to, None),
        }
    }

    /// Moves the deadline to `after` from now, as [`reset`](Self::reset) does. With more than
    /// [292 years](Self::deadline) it never comes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let start = Instant::now();
    /// let mut sleep = TimingWheel::new().sleep(Duration::from_secs(60));
    /// sleep.reset_after(Duration::from_secs(3));
    /// sleep.await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(3));
    /// # }
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        match &mut self.timer {
            Timer::ByName { from, after: delay } => (*from, *delay) = (Instant::now(), after),
            Timer::OfWheel { shard, state } => {
                let now = shard.clock.now();
                state.move_to(shard, now.after(after), Some(now));
            }
        }
    }

    /// Moves the deadline to `to`. `now` is the time, if the caller has just read the clock: then neither this nor the next
    /// poll reads it, unless a paused clock was seen, which may jump before that poll.
    pub(crate) fn move_to(&mut self, to: Nanos, now: Option<Nanos>) {
        let (shard, state) = self.on_wheel();
        state.move_to(shard, to, now);
    }

    /// Lets this be late by less than `tolerance`, so that it fires together with others and costs less among very many.
    ///
    /// The deadline is rounded up to the next of the points that lie 2, 4, 8 and so on ticks apart, on the widest grid that
    /// is not wider than the tolerance. All timers share these points, so timers that are due at about the same time fire
    /// in one turn of the wheel. Use it for very many timers of some seconds or more that seldom fire, such as those of
    /// idle connections.
    ///
    /// [`deadline`](Self::deadline) then returns the rounded instant. [`reset`](Self::reset) and
    /// [`reset_after`](Self::reset_after) keep the tolerance. A tolerance of less than two ticks is none, so a tolerance of
    /// zero ends it. A deadline that has passed stays as it is.
    ///
    /// # Precision
    /// Never early. Late by less than the tolerance plus the machine's wake-up time, or by as much as a timer without a
    /// tolerance ([precision](crate::TimingWheel#precision)), whichever is more. On average it is half of the grid late. At
    /// a tick of 1 ms, a tolerance of 1,024 ms has a grid of 1,024 ms. One of 1 s has a grid of 512 ms, and wakes a process
    /// twice as often.
    ///
    /// On a wheel with 32 slots or more, a timer whose tolerance is a seventh of its delay or more stays in one place until
    /// it fires or is reset. With an eighth, it moves once at most. With less, it may move as often as a timer without a
    /// tolerance. The [statistics](crate::Stats::lateness) count lateness from the rounded deadline.
    ///
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep), for a sleep that is made there. A sleep of a wheel never panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let minute = Duration::from_secs(60);
    /// let exact = Instant::now() + minute;
    /// let sleep = wheel.sleep(minute).with_tolerance(minute / 8);
    /// assert!((exact..exact + minute / 8).contains(&sleep.deadline()));
    /// # }
    /// ```
    #[track_caller]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        let (deadline, has_elapsed) = (self.deadline_nanos(), self.is_elapsed());
        self.set_tolerance(tolerance);
        if !has_elapsed {
            self.move_to(deadline, None);
        }
        self
    }

    /// Sets the tolerance of later deadlines. A sleep by name gets its wheel here.
    #[track_caller]
    pub(crate) fn set_tolerance(&mut self, tolerance: Duration) {
        let (shard, state) = self.on_wheel();
        let new = shard.resolution.grid_within(Nanos::from_duration(tolerance));
        state.set_grid(new);
    }
}

// For the owners of a sleep that use it as their alarm.
impl Sleep {
    /// A timer of the same shard, without a deadline. Only for a sleep that was made by a wheel.
    pub(crate) fn another(&self) -> Self {
        Self::until(self.shard().clone(), Nanos::MAX)
    }

    /// The deadline at which a task is to be woken, or was woken already; `None` if none is armed.
    #[inline]
    pub(crate) fn armed(&self) -> Option<Nanos> {
        match &self.timer {
            Timer::OfWheel { state, .. } => state.entry().map(|(_, deadline)| deadline),
            Timer::ByName { .. } => None,
        }
    }

    /// Takes the timer out of the wheel. There is no waker if none was armed, or if it has been woken.
    pub(crate) fn take_waker(&mut self) -> Option<Waker> {
        let (shard, state) = self.on_wheel();
        let (key, deadline) = state.entry()?;
        *state = State::idle(deadline, None, state.grid());
        shard.cancel(key, deadline)
    }
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// If it cannot become ready, because its wheel has ended or is full. The message names the line of the `.await`,
    /// unless the sleep is polled by way of `&mut`, `select!` or the like.
    #[inline]
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_wait(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => {
                panic!("a `Sleep` cannot wait for its deadline: {error}")
            }
        }
    }
}

impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        matches!(&self.timer, Timer::OfWheel { state, .. } if state.phase() == Some(Phase::Elapsed))
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        let Timer::OfWheel { shard, state } = &self.timer else { return };
        let (key, deadline, waker) = match *state {
            State::Other(Other::Idle { .. }) => return,
            State::Armed { deadline, key, waker } => (key, deadline, Some(waker)),
            State::Other(Other::Tolerant { deadline, key, .. }) => (key, deadline, None),
        };
        shard.discard(key, deadline, waker);
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.timer {
            Timer::ByName { .. } => "Unarmed",
            Timer::OfWheel { state, .. } => match state.phase() {
                None => "Armed",
                Some(Phase::Made | Phase::Unarmed) => "Unarmed",
                Some(Phase::Elapsed) => "Elapsed",
            },
        };
        f.debug_struct("Sleep")
            .field("deadline", &FromNow(self.deadline()))
            .field("state", &format_args!("{state}"))
            .finish_non_exhaustive()
    }
}
