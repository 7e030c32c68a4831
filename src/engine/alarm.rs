//! The alarm: when the next turn is, and who calls for it.
//!
//! A *turner* turns the wheel. An *inserter* arms a timer, or moves one. At the end of a turn the turner publishes the
//! time of the next turn, and sets the park's timer to it. An inserter whose timer is due earlier lowers that time, and
//! sets the park's timer to it. Neither may miss the other:
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
//! `next_turn` becomes a time only under the lock of `state`. System calls are made under that lock, so a thread that holds
//! a shard's lock must not take it.
//!
//! | next turn | set by | an inserter with an earlier expiration |
//! |---|---|---|
//! | [`AWAKE`] | a turner at the beginning of its turn; a thread that wakes the driver's task to turn | does nothing |
//! | a time | a turner at the end of its turn, or an inserter | sets the park's timer |
//! | [`NEVER`] | a turner with nothing to wait for | sets the park's timer |
//!
//! The driver's task turns only where the runtime has a single thread. Elsewhere a worker that blocks could hold the woken
//! task, which no other worker can then take. So there the park's timer calls for each turn, and [`AWAKE`] never outlives a
//! turn.
//!
//! After a turn in which many timers fired, the next turn has an earliest time (see `turn::Pace`). On a thread that turns
//! many wheels, all turns come at the ends of ticks (see `many_wheels`).
//!
//! In a row of timers, each earlier than the last, each would set a timerfd by a system call. So after a turn the first
//! [`EXACT`] inserters set it to exactly their times, and each further one to half of the remaining time: a row costs a few
//! calls, and a turn that finds nothing. If the second did so already, one turn in twelve found nothing where two tasks slept.
//! tokio's timer is set to the exact time by each, because it may follow a paused clock, and a test would see the additional
//! turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::engine::many_wheels;
use crate::engine::park_timer::ParkTimer;
use crate::engine::watchdog::{Watch, Watchdog, Watched};
use crate::platform::clock::Clock;
use crate::platform::sync::{AtomicU64, AtomicWaker, Mutex, Ordering, fence, lock};
use crate::telemetry::counters::Counters;
use crate::wheel::{Nanos, Resolution};

/// The value of `next_turn` while some thread owes a turn: a turner from the beginning of its turn to the end, the driver's task
/// from when it was woken for that, and the thread that makes the wheel, for the first turn. No expiration is less.
const AWAKE: u64 = 0;
/// The value of `next_turn` while there is nothing to wait for.
const NEVER: u64 = Nanos::MAX.0;

/// How many inserters set a timerfd to exactly their times after a turn.
const EXACT: u32 = 2;

/// A wheel with a longer tick is turned seldom enough, and is turned at the times of its timers.
pub(super) const LONGEST_SHORT_TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Alarm {
    next_turn: AtomicU64,
    /// Since when the next turn is due. A turn is not due before it was asked for. `NEVER` once a turn has begun.
    due: AtomicU64,
    /// The driver's task, which registers before it checks anything else.
    pub(super) driver: AtomicWaker,
    clock: Clock,
    pub(super) resolution: Resolution,
    state: Mutex<State>,
    pub(crate) watch: Watch,
    /// They are here because everything that counts something has the alarm.
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    timer: ParkTimer,
    /// The earliest time for which the timer may be set. Zero unless the last turn found the wheel busy.
    not_before: Nanos,
    /// How often inserters have set the timer since the last turn.
    brought_forward: u32,
    /// The runtime, if the watchdog watches the wheel, and until the driver ends.
    runtime: Option<Handle>,
    /// The last task that the watchdog has spawned there.
    nudge: Option<JoinHandle<()>>,
    #[cfg(all(test, loom))]
    set_for: Option<Nanos>,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, resolution: Resolution, counters: Counters) -> Self {
        Self {
            next_turn: AtomicU64::new(AWAKE),
            due: AtomicU64::new(NEVER),
            driver: AtomicWaker::new(),
            clock,
            resolution,
            state: Mutex::new(State::default()),
            watch: Watch::default(),
            counters,
        }
    }

    /// For the driver as it begins on the current runtime: has this timer call, and if `workers` could block each other, has
    /// the watchdog watch.
    pub(crate) fn begin(self: &Arc<Self>, timer: ParkTimer, workers: usize) {
        let runtime = (workers > 1).then(Handle::current);
        let is_watched = runtime.is_some();
        *lock(&self.state) = State { timer, runtime, ..State::default() };
        if is_watched {
            self.watch.begin(Watchdog::of_this_process(), self);
        }
    }

    /// For the driver as it ends: lets go of the runtime, which the driver's waker and the timer hold. Another call lets go of
    /// what the driver has registered since.
    pub(crate) fn end(&self) {
        let state = std::mem::take(&mut *lock(&self.state));
        if state.runtime.is_some() {
            self.watch.end();
        }
        self.clock.end();
        drop(self.driver.take());
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
        let mut state = lock(&self.state);
        self.clock.look_for_pause();
        let now = self.time_to_set(expiration);
        let mut at = self.on_grid(expiration, now).max(state.not_before);
        // If this thread reads either from before a turn, that turn's step 2 is still to come, and sees the expiration.
        if self.next_turn.load(Ordering::Relaxed) <= at.0 || state.timer.is_of_another_process() {
            return;
        }
        state.brought_forward += 1;
        if state.brought_forward > EXACT && state.timer.is_fd() {
            at = self.on_grid(halfway(now, at), now).max(state.not_before);
        }
        let will_not_call = self.set(&mut state, now, at, at.max(now));
        let is_left_to_driver = will_not_call && !self.call_soon(&mut state, now);
        drop(state);
        if is_left_to_driver {
            self.wake_to_turn();
        } else {
            fence(Ordering::SeqCst);
            self.expect_turn(at);
        }
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
        let mut state = lock(&self.state);
        state.timer.await_next();
        // After the lock, for which this may have waited.
        let now = self.time_to_set(at);
        let at = self.on_grid(at, now).max(not_before);
        state.not_before = not_before;
        state.brought_forward = 0;
        let will_not_call = self.set(&mut state, now, at, at.max(now));
        drop(state);
        // The turner published `next_turn` before this fence, and checks the shards after it.
        fence(Ordering::SeqCst);
        self.expect_turn(at);
        will_not_call
    }

    /// For a turner that has used up its budget: has the rest, which is due since `due`, handed out after other tasks
    /// have run: as the park's timer calls, or by the driver's task. In the latter case `next_turn` is still [`AWAKE`].
    pub(crate) fn set_for_rest(&self, due: Nanos) {
        let mut state = lock(&self.state);
        state.timer.await_next();
        state.brought_forward = 0;
        let is_set = self.call_soon(&mut state, due);
        drop(state);
        if is_set {
            fence(Ordering::SeqCst);
            self.expect_turn(self.clock.now());
        } else {
            self.due.store(due.0, Ordering::Relaxed);
            self.driver.wake();
        }
    }

    /// Has the park's timer call as soon as it can, for a turn that is due since `due`. Returns false where the driver's task
    /// has to turn instead.
    fn call_soon(&self, state: &mut State, due: Nanos) -> bool {
        let Some(delay) = state.timer.soonest_call() else { return false };
        loop {
            let now = self.clock.now();
            let will_not_call = self.set(state, now, now.after(delay), due);
            // Otherwise this thread was held up for as long.
            if !will_not_call {
                return true;
            }
        }
    }

    /// The time, as far as it matters for setting the alarm to `at`. The clock is not read if there is nothing to wait for, nor
    /// where it may jump: there tokio's timer is set to an instant, and no timer is armed whose deadline has passed.
    fn time_to_set(&self, at: Nanos) -> Nanos {
        if at == Nanos::MAX || self.clock.may_jump() { at } else { self.clock.now() }
    }

    /// `at`, or the end of its tick on a thread that turns many wheels.
    fn on_grid(&self, at: Nanos, now: Nanos) -> Nanos {
        // Where the clock can be paused, tests expect each turn on time.
        let has_grid = !self.clock.is_pausable && self.resolution.tick() <= LONGEST_SHORT_TICK;
        if has_grid && many_wheels::are_turned(now) { self.resolution.end_of_tick(at) } else { at }
    }

    /// The earliest time for which the alarm may be set; zero unless the last turn found the wheel busy.
    pub(crate) fn not_before(&self) -> Nanos {
        lock(&self.state).not_before
    }

    /// Publishes the time of the next turn and since when that turn is due, and sets the timer. Returns whether the
    /// time has come already, so that the timer will not call.
    fn set(&self, state: &mut State, now: Nanos, at: Nanos, due: Nanos) -> bool {
        self.due.store(due.0, Ordering::Relaxed);
        self.replace_next_turn(at.0);
        #[cfg(all(test, loom))]
        {
            state.set_for = Some(at);
        }
        state.timer.set(now, at)
    }

    fn expect_turn(&self, at: Nanos) {
        if let Some(error) = self.watch.expect(at) {
            self.counters.not_given("a thread for the watchdog", error);
            self.driver.wake();
        }
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

    /// By an empty task. The driver's task may be held by the worker that blocks. And a task that turned would let deadlines
    /// overtake input: the worker that runs an empty one looks at the runtime's input and timers next.
    fn wake_a_worker(&self) {
        let (runtime, nudge) = {
            let mut state = lock(&self.state);
            (state.runtime.clone(), state.nudge.take())
        };
        let Some(runtime) = runtime else { return };
        let nudge = match nudge {
            Some(waiting) if !waiting.is_finished() => waiting,
            _ => runtime.spawn(async {}),
        };
        let mut state = lock(&self.state);
        // After the end this would keep the runtime.
        if state.runtime.is_some() {
            state.nudge = Some(nudge);
        }
    }
}

/// The time half way from `now` to `at`, or `at` if that has come.
fn halfway(now: Nanos, at: Nanos) -> Nanos {
    Nanos(now.0.min(at.0) + at.0.saturating_sub(now.0) / 2)
}

#[cfg(all(test, not(loom), feature = "timerfd", target_os = "linux"))]
impl Alarm {
    pub(super) fn calls(&self) -> Option<usize> {
        lock(&self.state).timer.calls()
    }
}

/// For models, which play the runtime's park, and check what it is set for.
#[cfg(all(test, loom))]
impl Alarm {
    /// Whether the park's timer has the wheel turned by `expiration`, without the driver's task.
    pub(crate) fn is_set_for(&self, expiration: Nanos) -> bool {
        let next_turn = self.next_turn.load(Ordering::Relaxed);
        (AWAKE + 1..=expiration.0).contains(&next_turn) && lock(&self.state).set_for == Some(Nanos(next_turn))
    }
}
