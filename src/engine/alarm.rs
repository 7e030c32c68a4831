//! The alarm: when the next turn is, and the timers in the runtime's park that call for it.
//!
//! A *turner* turns the wheel. An *inserter* arms a timer, or moves one. At the end of a turn the turner publishes the
//! time of the next turn, and sets the park's timers to it. An inserter whose timer is due earlier lowers that time, and
//! sets the timers to it. Neither may miss the other:
//!
//! ```text
//!   inserter                                       turner
//!   1. publish the shard's next expiration         1. publish the next turn
//!   2. check the next turn: lower it if it is later   2. check the shards again: turn if one is earlier
//! ```
//!
//! **Ground rules.** Between its two steps each has a sequentially consistent fence, so at least one of them sees what the
//! other published. During a turn the next turn is [`AWAKE`], and inserters leave it alone, because the turner's step 2 is
//! still to come. Two turns at the same time do no harm: each ends with step 2, or has another turn made at once.
//! `next_turn` becomes a time only under the lock of `timers`. System calls are made under that lock, so a thread that holds
//! a shard's lock must not take it.
//!
//! | next turn | set by | an inserter with an earlier expiration |
//! |---|---|---|
//! | [`AWAKE`] | a turner at the beginning of its turn, or a thread that woke the driver's task to turn | does nothing |
//! | a time | a turner at the end of its turn, or an inserter | sets the timers |
//! | [`NEVER`] | a turner with nothing to wait for | sets the timers |
//!
//! After a turn in which many timers fired, the next turn has an earliest time (see `turn::Pace`).
//!
//! The first inserter after a turn sets the timers to exactly its time. Where that is a system call, each further one sets
//! them to half of the remaining time. If each set its own time, a row of timers, each earlier than the last, would cost a
//! call each. So they cost two as a rule, and one turn that finds nothing. Where the clock can be paused, every inserter
//! sets its exact time, because a test would see the additional turn.
//!
//! | runtime | timers in its park | precision |
//! |---|---|---|
//! | multi-thread, on Linux | a timerfd in its poller | some 50 µs |
//! | current-thread | one of tokio's timers, which follows a paused clock and costs no system call | a millisecond |
//! | current-thread, on Linux, with a tick of less than a millisecond | a timerfd; where the clock can be paused, one of tokio's timers too | some 50 µs |
//! | any, without the feature `timerfd` or where the system gives no timerfd | one of tokio's timers | a millisecond |
//!
//! tokio has no way to ask whether a runtime has an I/O driver or timers. Where the one that is needed is missing, tokio
//! panics in its own words as the wheel is made.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::coop;
use tokio::time::{Sleep, sleep_until};

use crate::engine::watchdog::{Watch, Watchdog, Watched};
use crate::platform::clock::{Clock, instant};
use crate::platform::sync::{AtomicU64, AtomicUsize, AtomicWaker, Mutex, Ordering, fence, lock};
use crate::platform::timer_fd::{self, TimerFd};
use crate::telemetry::counters::Counters;
use crate::wheel::Nanos;

/// The value of `next_turn` while a turn goes on or is about to begin. No expiration is less.
const AWAKE: u64 = 0;
/// The value of `next_turn` while there is nothing to wait for.
const NEVER: u64 = Nanos::MAX.0;

/// How far ahead tokio's timer is set for a time that has passed: it calls in tokio's next tick.
const TOKIOS_TICK: Duration = Duration::from_millis(1);

/// The values of `setting`.
const NOT_SETTING: usize = 0;
const SETTING: usize = 1;
const CALLED: usize = 2;

#[derive(Debug)]
pub(crate) struct Alarm {
    next_turn: AtomicU64,
    /// Since when the next turn is due. A turn is not due before it was asked for. `NEVER` once a turn has begun.
    due: AtomicU64,
    /// The earliest time for which the alarm may be set. Zero unless the last turn found the wheel busy. Hidden from loom:
    /// it would multiply the largest model's run time.
    not_before: StdAtomicU64,
    /// The driver's task, which registers before it checks anything else.
    pub(super) driver: AtomicWaker,
    clock: Clock,
    timers: Mutex<ParkTimers>,
    /// Whether a thread is setting tokio's timer, under the lock of `timers`, and whether the timer has called
    /// meanwhile.
    setting: AtomicUsize,
    pub(crate) watch: Watch,
    /// How many shards are still held. The driver ends with the last one.
    shards: AtomicUsize,
    /// They are here because everything that counts something has the alarm.
    pub(crate) counters: Counters,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, shards: usize, counters: Counters) -> Self {
        Self {
            next_turn: AtomicU64::new(AWAKE),
            due: AtomicU64::new(NEVER),
            not_before: StdAtomicU64::new(0),
            driver: AtomicWaker::new(),
            clock,
            timers: Mutex::new(ParkTimers::default()),
            setting: AtomicUsize::new(NOT_SETTING),
            watch: Watch::default(),
            shards: AtomicUsize::new(shards),
            counters,
        }
    }

    /// For the driver as it begins: has these timers call, and if `workers` could block each other, has the watchdog watch.
    pub(crate) fn begin(self: &Arc<Self>, timers: ParkTimers, workers: usize) {
        *lock(&self.timers) = timers;
        if workers > 1 {
            self.watch.begin(Watchdog::of_this_process(), self);
        }
    }

    /// For the driver as it ends: lets go of the runtime, which the driver's waker and the timers hold.
    pub(crate) fn end(&self) {
        self.watch.end();
        drop(self.driver.take());
        let timers = std::mem::take(&mut *lock(&self.timers));
        drop(timers);
    }

    // For inserters.

    /// For an inserter that has published `expiration` as its shard's next, or when leftovers are to be cleared: asks for a
    /// turn by then. The caller must not hold the shard's lock.
    pub(crate) fn request(&self, expiration: Nanos) {
        // The inserter published its expiration before this fence, and checks `next_turn` after it.
        fence(Ordering::SeqCst);
        if expiration.0 < self.next_turn.load(Ordering::Relaxed) {
            self.set_earlier(expiration);
        }
    }

    #[cold]
    fn set_earlier(&self, expiration: Nanos) {
        if self.comes_soon_enough_for(expiration) {
            return;
        }
        let mut timers = lock(&self.timers);
        if self.comes_soon_enough_for(expiration) {
            return;
        }
        self.clock.look_for_pause();
        let now = self.clock.now();
        let expiration = expiration.max(self.not_before());
        let is_first = !std::mem::replace(&mut timers.brought_forward, true);
        let costs_system_calls = timers.timer_fd.is_some() && !self.clock.is_pausable;
        let at = if is_first || !costs_system_calls {
            expiration
        } else {
            let half = Nanos(now.0.min(expiration.0) + expiration.0.saturating_sub(now.0) / 2);
            half.max(self.not_before())
        };
        let mut is_due = self.set(&mut timers, now, at, at.max(now));
        if is_due && timers.is_multi_thread {
            // Were the driver's task woken here, it would be the first in this worker's queue. No other worker could
            // take it from there if this worker blocked.
            is_due = self.set(&mut timers, now, now.after(TOKIOS_TICK), now);
        }
        drop(timers);
        if is_due {
            self.wake_to_turn();
        } else {
            fence(Ordering::SeqCst);
            self.expect_turn(at);
        }
    }

    /// Whether the next turn goes on already, or the alarm is set for an expiration or for the earliest time that is
    /// allowed.
    fn comes_soon_enough_for(&self, expiration: Nanos) -> bool {
        // If this thread reads either from before a turn, that turn's step 2 is still to come, and sees the expiration.
        self.next_turn.load(Ordering::Relaxed) <= expiration.max(self.not_before()).0
    }

    // For turners.

    /// Before the turner turns the shards: tells inserters that a turn begins. Returns since when the turn is due; `None`
    /// if the alarm was not set, or if another turner has begun it.
    pub(crate) fn begin_turn(&self) -> Option<Nanos> {
        self.replace_next_turn(AWAKE);
        // Relaxed: a time that another turner is just replacing only makes the recorded lateness less exact.
        let due = self.due.swap(NEVER, Ordering::Relaxed);
        (due < NEVER).then_some(Nanos(due))
    }

    /// At the end of a turn: has the next turn made at `at`, but not before `not_before`, not even for an inserter. After
    /// this the turner has to check the shards once more. Returns whether the time has come already for tokio's timer, so
    /// that it will not call, or has called and left the turn to this thread.
    pub(crate) fn set_next_turn(&self, at: Nanos, not_before: Nanos) -> bool {
        self.not_before.store(not_before.0, Ordering::Relaxed);
        let at = at.max(not_before);
        self.set_by_turner(|now| (at, at.max(now)))
    }

    /// For a turner that has used up its budget: has the rest, which is due since `due`, handed out after other tasks
    /// have run. A timerfd calls for it when the poller is polled next. tokio's timer would take a millisecond. So
    /// without a timerfd, or where the clock can be paused, the driver's task turns: `next_turn` is still [`AWAKE`].
    pub(crate) fn set_for_rest(&self, due: Nanos) {
        if self.clock.is_pausable || lock(&self.timers).timer_fd.is_none() {
            self.due.store(due.0, Ordering::Relaxed);
            self.driver.wake();
        } else {
            self.set_by_turner(|now| (now, due));
        }
    }

    /// Sets the alarm. `at_and_due` gets the present time. It returns the time to set, and the time since which that
    /// turn is due.
    fn set_by_turner(&self, at_and_due: impl FnOnce(Nanos) -> (Nanos, Nanos)) -> bool {
        let mut timers = lock(&self.timers);
        // After the lock, for which this may have waited.
        let now = self.clock.now();
        let (at, due) = at_and_due(now);
        timers.brought_forward = false;
        let is_due = self.set(&mut timers, now, at, due);
        drop(timers);
        // The turner published `next_turn` before this fence, and checks the shards after it.
        fence(Ordering::SeqCst);
        self.expect_turn(at);
        is_due
    }

    /// The earliest time for which the alarm may be set; zero unless the last turn found the wheel busy.
    pub(crate) fn not_before(&self) -> Nanos {
        Nanos(self.not_before.load(Ordering::Relaxed))
    }

    /// Publishes the time of the next turn and since when that turn is due, and sets the timers. Returns whether the
    /// time has come already, so that no timer will call.
    fn set(&self, timers: &mut ParkTimers, now: Nanos, at: Nanos, due: Nanos) -> bool {
        self.due.store(due.0, Ordering::Relaxed);
        self.replace_next_turn(at.0);
        self.setting.store(SETTING, Ordering::Relaxed);
        let is_due = timers.set(now, at);
        let has_called = self.setting.swap(NOT_SETTING, Ordering::AcqRel) == CALLED;
        has_called || is_due
    }

    fn expect_turn(&self, at: Nanos) {
        if let Some(error) = self.watch.expect(at) {
            self.counters.events.not_given("a thread for the watchdog", error);
            self.driver.wake();
        }
    }

    /// For the timerfd's waker, which is called only once: has it called the next time too.
    pub(crate) fn await_timer_fd(&self) {
        if let Some(timer_fd) = &lock(&self.timers).timer_fd {
            timer_fd.await_next();
        }
    }

    /// For the waker of tokio's timer: if a thread is setting the timers, leaves the turn to that thread. Returns
    /// whether it did. The thread holds the lock of the timers, and nobody may turn under that lock. It may be called twice in
    /// one setting: by a worker while the timer is moved, and by the thread that sets it as it polls the timer.
    pub(crate) fn leave_to_setter(&self) -> bool {
        let called = |setting| (setting != NOT_SETTING).then_some(CALLED);
        self.setting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, called).is_ok()
    }

    // For and about the driver's task.

    /// Whether a turn goes on or is about to begin, so that the task has to turn.
    pub(crate) fn is_awake(&self) -> bool {
        self.next_turn.load(Ordering::Relaxed) == AWAKE
    }

    /// Has the task turn the wheel, unless a turn goes on or is about to begin.
    pub(crate) fn wake_to_turn(&self) {
        let before = self.replace_next_turn(AWAKE);
        if before != AWAKE {
            self.driver.wake();
        }
    }

    /// For a shard that is dropped. The last one wakes the task.
    pub(crate) fn release_shard(&self) {
        let is_last = self.shards.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.driver.wake();
        }
    }

    /// Sets `next_turn`, and returns what it was. This is a swap even where a store would do, because for the model checker
    /// a store has no order with the swaps that it overtakes.
    fn replace_next_turn(&self, at: u64) -> u64 {
        // Release and acquire: a thread that replaces a time, to wake the driver, finds the waker that was registered
        // before the alarm was set for that time.
        self.next_turn.swap(at, Ordering::AcqRel)
    }
}

impl Watched for Alarm {
    fn turn_due(&self) -> Option<Nanos> {
        match self.next_turn.load(Ordering::Relaxed) {
            AWAKE | NEVER => None,
            at => Some(Nanos(at)),
        }
    }

    /// The task turns nothing: it finds that the shards have ended, or else the worker that polls it looks at the runtime's
    /// input and timers next.
    fn wake(&self) {
        self.driver.wake();
    }
}

/// For models, which play the runtime's park, and check what it is set for.
#[cfg(all(test, loom))]
impl Alarm {
    /// Whether the park's timers have the wheel turned by `expiration`, without the driver's task.
    pub(crate) fn is_set_for(&self, expiration: Nanos) -> bool {
        let next_turn = self.next_turn.load(Ordering::Relaxed);
        (AWAKE + 1..=expiration.0).contains(&next_turn)
            && lock(&self.timers).set_for == Some(Nanos(next_turn))
    }
}

/// The timers by which the runtime's park calls our wakers. None of them before the driver begins, after it has ended, and
/// in a model.
#[derive(Debug, Default)]
pub(crate) struct ParkTimers {
    timer_fd: Option<TimerFd>,
    tokio_timer: Option<TokioTimer>,
    /// Whether this is a multi-thread runtime, where the woken driver's task stays with the worker that wakes it.
    is_multi_thread: bool,
    /// Whether an inserter has set them since the last turn.
    brought_forward: bool,
    #[cfg(all(test, loom))]
    set_for: Option<Nanos>,
}

impl ParkTimers {
    /// The timers of the current runtime for a wheel with this clock and tick. A timerfd calls `by_fd`, and tokio's timer
    /// calls `by_tokio`.
    ///
    /// # Panics
    /// As tokio does, if the runtime lacks the I/O driver or the timers that are needed.
    #[track_caller]
    pub(crate) fn of_current_runtime(
        clock: Clock,
        tick: Duration,
        counters: &Counters,
        by_fd: Waker,
        by_tokio: Waker,
    ) -> Self {
        let runtime = Handle::current();
        let is_multi_thread = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let mut timer_fd = None;
        if timer_fd::EXISTS && (is_multi_thread || tick < TOKIOS_TICK) {
            match TimerFd::in_current_runtime(by_fd) {
                Ok(given) => timer_fd = Some(given),
                Err(error) => counters.events.not_given("a timerfd", error),
            }
        }
        let wants_tokio = timer_fd.is_none() || clock.is_pausable;
        let tokio_timer = if wants_tokio {
            // tokio panics here if the runtime has no timers.
            let timer = Box::pin(sleep_until(instant(Nanos::MAX)));
            Some(TokioTimer { timer, at: Nanos::MAX, runtime, waker: by_tokio })
        } else {
            None
        };
        Self { timer_fd, tokio_timer, is_multi_thread, ..Self::default() }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) const fn has_timer_fd(&self) -> bool {
        self.timer_fd.is_some()
    }

    /// Has them call at `at`. Returns whether that time has come already for tokio's timer, so that this timer will not
    /// call. A timerfd calls in any case.
    fn set(&mut self, now: Nanos, at: Nanos) -> bool {
        #[cfg(all(test, loom))]
        {
            self.set_for = Some(at);
        }
        // If there is nothing to wait for it is left as it is, and calls for nothing once at the most.
        if let Some(timer_fd) = &self.timer_fd
            && at < Nanos::MAX
        {
            timer_fd.set(Duration::from_nanos(at.0.saturating_sub(now.0)));
        }
        self.tokio_timer.as_mut().is_some_and(|timer| timer.set(at))
    }
}

/// One of tokio's timers. It is registered only while something is pending, because a registered timer would move an idle
/// clock that is paused.
#[derive(Debug)]
struct TokioTimer {
    timer: Pin<Box<Sleep>>,
    /// The time for which it was set last.
    at: Nanos,
    runtime: Handle,
    waker: Waker,
}

impl TokioTimer {
    /// Returns whether the time has come already, so that the timer will not call.
    fn set(&mut self, at: Nanos) -> bool {
        let before = std::mem::replace(&mut self.at, at);
        if at == Nanos::MAX {
            // One that has called is not registered any more. One that is still at the end of time stays: in the first turn
            // tokio may be about to drop a future that it refused to spawn, and the runtime cannot be entered then.
            if before < at && !self.timer.is_elapsed() {
                let _runtime = self.runtime.enter();
                self.timer.set(sleep_until(instant(at)));
            }
            return false;
        }
        self.timer.as_mut().reset(instant(at));
        // Unconstrained: this takes nothing from the budget of the task that happens to be polled.
        let timer = coop::unconstrained(self.timer.as_mut());
        pin!(timer).poll(&mut Context::from_waker(&self.waker)).is_ready()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// By a worker while the timer is moved, and by the thread that sets it as it polls the timer.
    #[test]
    fn each_call_of_tokios_timer_is_left_to_the_thread_that_sets_it() {
        let alarm = Alarm::new(Clock::that_pauses(false), 1, Counters::of("alone".into()));
        assert!(!alarm.leave_to_setter(), "nobody sets it");
        alarm.setting.store(SETTING, Ordering::Relaxed);
        assert!(alarm.leave_to_setter());
        assert!(alarm.leave_to_setter());
    }
}
