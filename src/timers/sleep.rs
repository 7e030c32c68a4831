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
use crate::platform::clock::{Clock, FromNow, has_test_util, instant, nanos};
use crate::platform::wakers::WakerId;
use crate::runtime_wheel::with_current;
use crate::wheel::{Nanos, Resolution};

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
    /// Dropping the future removes the timer, and nothing else is lost. To save work, up to 14 dropped timers in each
    /// shard keep their wakers and their memory, for at most a second while the runtime runs. The next timer reuses the entry of one of
    /// them. Each of the others, at most 13, was dropped on another thread than the one that made it, or was among the
    /// oldest of tens of thousands. A thread that later polls or drops a timer may drop these wakers, and does not see
    /// their panics. On a wheel with a bound, and where the clock can be paused, nothing is kept.
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

    /// The shard, if it has one.
    #[inline]
    const fn shard(&self) -> Option<&Arc<Shard>> {
        match &self.timer {
            Timer::OfWheel { shard, .. } => Some(shard),
            Timer::ByName { .. } => None,
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
        let Timer::OfWheel { state, .. } = &self.timer else { return false };
        match state.phase() {
            Some(phase) => phase == Phase::Elapsed,
            None => self.has_come_to(state.deadline()),
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

    /// The time by the wheel's clock. A sleep by name gets its wheel here.
    #[track_caller]
    pub(super) fn now_on_wheel(&mut self) -> Nanos {
        self.on_wheel().0.clock.now()
    }

    /// Sets the tolerance of later deadlines.
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
        Self::until(self.of_wheel().clone(), Nanos::MAX)
    }

    /// Whether a turn has come to `deadline`, which need not be this sleep's.
    pub(crate) fn has_come_to(&self, deadline: Nanos) -> bool {
        self.shard().is_some_and(|shard| shard.has_reached(deadline) && !shard.ended_before(deadline))
    }

    fn of_wheel(&self) -> &Arc<Shard> {
        self.shard().expect("made by a wheel")
    }

    /// The name of its wheel; empty for a sleep by name that has none yet.
    pub(crate) fn wheel_name(&self) -> &str {
        self.shard().map_or("", |shard| shard.wheel_name())
    }

    /// The wheel's clock. Only for a sleep that was made by a wheel.
    pub(crate) fn clock(&self) -> &Clock {
        &self.of_wheel().clock
    }

    /// How the wheel's ticks lie. Only for a sleep that was made by a wheel.
    pub(crate) fn resolution(&self) -> Resolution {
        self.of_wheel().resolution
    }

    /// How long a tick of the wheel is. Only for a sleep that was made by a wheel.
    pub(crate) fn tick(&self) -> Duration {
        self.resolution().tick()
    }

    /// The deadline at which a task is to be woken, or was woken already; `None` if none is armed.
    #[inline]
    pub(crate) fn armed(&self) -> Option<Nanos> {
        match &self.timer {
            Timer::OfWheel { state, .. } => state.entry().map(|(_, deadline)| deadline),
            Timer::ByName { .. } => None,
        }
    }

    /// When the wheel was last turned so late that this timer's task may have been woken long after its deadline; zero
    /// if never.
    pub(crate) fn last_late_turn(&self) -> Nanos {
        self.shard().map_or(Nanos::ZERO, |shard| shard.last_late_turn())
    }

    /// Whether the wheel has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.shard().is_some_and(|shard| shard.has_ended())
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
