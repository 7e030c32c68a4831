//! When the next turn is: the agreement between turners and inserters.
//!
//! A *turner* turns the wheel. An *inserter* arms a timer, or moves one. At the end of a turn the turner publishes the
//! time of the next turn as `next_turn`, and sets the timers of the runtime's park to it. An inserter whose timer is due
//! earlier lowers `next_turn`, and sets those timers to the earlier time. Neither may miss the other:
//!
//! ```text
//!   inserter                                    turner
//!   1. publish the shard's next expiration      1. publish `next_turn`
//!   2. check `next_turn`: lower it if it is later   2. check the shards again: turn if one is earlier
//! ```
//!
//! Between its two steps each has a sequentially consistent fence, so at least one of them sees what the other
//! published. During a turn `next_turn` is [`AWAKE`], and inserters leave it alone, because the turner's step 2 is still to
//! come. Two turns at the same time do no harm: each ends with step 2.
//!
//! | `next_turn` | who set it | what an inserter with an earlier expiration does |
//! |---|---|---|
//! | [`AWAKE`] | a turner at the beginning of its turn, or a thread that woke the driver's task to turn | nothing |
//! | a time | a turner at the end of its turn, or an inserter | sets the timers |
//! | never | a turner with nothing to wait for | sets the timers |
//!
//! After a turn in which very many timers fired, the alarm is set for no time before a certain one (see `driver::pace`). An
//! inserter with an earlier expiration leaves `next_turn` alone if it is that time, and otherwise lowers it to that time.
//!
//! The first inserter after a turn sets the timers to exactly its time. The next one sets them to half of the remaining
//! time. Otherwise each of many timers, each earlier than the last, would cost a system call. So they cost two, and one
//! turn that finds nothing. Where the clock can be paused, every inserter sets its exact time, because a test would see the
//! additional turn.

// | file | what it has |
// |---|---|
// | this one | for when the alarm is set, and since when that turn is due; what inserters do |
// | `for_turner` | what a turner does at the beginning and at the end of its turn |
// | `park_timers`, `timer_fd` | the timers in the runtime's park that call a turner then |
// | `for_watchdog` | what the watchdog knows of a wheel, and does to it |
// | `end_flags` | how the end of a wheel is noticed |

mod end_flags;
mod for_turner;
mod for_watchdog;
mod park_timers;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android")))]
mod timer_fd;
#[cfg(not(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android"))))]
#[path = "no_timer_fd.rs"]
mod timer_fd;

use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::task::Waker;
use std::time::Duration;

use end_flags::EndFlags;
pub(crate) use park_timers::ParkTimers;

use crate::engine::watchdog::Watch;
use crate::platform::clock::Clock;
use crate::platform::sync::{AtomicBool, AtomicU64, AtomicUsize, AtomicWaker, Mutex, Ordering, fence, lock};
use crate::telemetry::counters::Counters;
use crate::wheel::Nanos;

/// The value of `next_turn` while a turn goes on or is about to begin. No expiration is less.
const AWAKE: u64 = 0;

/// How far ahead tokio's timer is set for a time that has passed: it calls in its next millisecond.
const SOON: Duration = Duration::from_millis(1);

/// The values of `setting`.
const NOT_SETTING: usize = 0;
const SETTING: usize = 1;
const CALLED: usize = 2;

#[derive(Debug)]
pub(crate) struct Alarm {
    next_turn: AtomicU64,
    /// Since when the next turn is due. A turn is not due before it was asked for. `u64::MAX` once a turn has begun.
    due: AtomicU64,
    /// The earliest time for which the alarm may be set. Zero unless the last turn found the wheel busy. To the models
    /// this is no atomic, because the largest would take many times as long, and only one of them has a busy wheel.
    not_before: StdAtomicU64,
    /// The driver's task.
    driver: AtomicWaker,
    /// Whether the clock of the driver's runtime can be paused.
    pausable: bool,
    /// Whether that clock was paused when a turner last checked.
    paused: AtomicBool,
    clock: Clock,
    timers: Mutex<ParkTimers>,
    /// Whether a thread is setting tokio's timer, under the lock of `timers`, and whether the timer has called
    /// meanwhile.
    setting: AtomicUsize,
    watch: Watch,
    end_flags: EndFlags,
    /// They are here because everything that counts something has the alarm.
    counters: Counters,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, pausable: bool, shards: usize, counters: Counters) -> Self {
        Self {
            next_turn: AtomicU64::new(AWAKE),
            due: AtomicU64::new(u64::MAX),
            not_before: StdAtomicU64::new(0),
            driver: AtomicWaker::new(),
            pausable,
            paused: AtomicBool::new(false),
            clock,
            timers: Mutex::new(ParkTimers::none()),
            setting: AtomicUsize::new(NOT_SETTING),
            watch: Watch::new(|| clock.now()),
            end_flags: EndFlags::new(shards),
            counters,
        }
    }

    /// For the driver as it begins: stores the timers by which the runtime's park calls.
    pub(crate) fn set_timers(&self, timers: ParkTimers) {
        *lock(&self.timers) = timers;
    }

    /// For the timerfd's waker, which is called only once: has it called the next time too.
    pub(crate) fn await_timer_fd(&self) {
        lock(&self.timers).await_timer_fd();
    }

    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// Whether the clock was paused when a turner last checked.
    pub(crate) fn is_paused(&self) -> bool {
        // Relaxed: a change that is seen late costs a wake-up, or leaves tokio's timer set for too long.
        self.pausable && self.paused.load(Ordering::Relaxed)
    }

    /// For a turner: asks the clock whether it is paused, and keeps the answer for [`is_paused`](Self::is_paused).
    pub(crate) fn refresh_paused(&self) -> bool {
        let paused = self.pausable && self.clock.is_paused();
        self.paused.store(paused, Ordering::Relaxed);
        paused
    }

    /// For an inserter that has published `expiration` as its shard's next: asks for a turn by then. The caller must
    /// not hold the shard's lock.
    pub(crate) fn request(&self, expiration: Nanos) {
        // The inserter published its expiration before this fence, and checks `next_turn` after it.
        fence(Ordering::SeqCst);
        if expiration.0 < self.next_turn.load(Ordering::Relaxed) {
            self.bring_forward(expiration);
        }
    }

    #[cold]
    fn bring_forward(&self, expiration: Nanos) {
        // On a paused clock the driver's task turns: it runs before the runtime parks, and so before the clock jumps. The clock
        // may have been paused since the last turn. A thread outside the runtime sees another clock, hence the order.
        if self.is_paused() || self.refresh_paused() {
            return self.wake_to_turn();
        }
        if self.comes_soon_enough_for(expiration) {
            return;
        }
        let mut timers = lock(&self.timers);
        // `next_turn` is set to a time only under this lock.
        if self.comes_soon_enough_for(expiration) {
            return;
        }
        let now = self.clock.now();
        let expiration = expiration.max(self.not_before());
        let is_first = !std::mem::replace(&mut timers.brought_forward, true);
        let at = if is_first || self.pausable {
            expiration
        } else {
            let half = Nanos(now.0.min(expiration.0) + expiration.0.saturating_sub(now.0) / 2);
            half.max(self.not_before())
        };
        let mut is_due = self.set(&mut timers, now, at, at.max(now));
        if is_due && !self.pausable {
            // Were the driver's task woken here, it would be the first in this worker's queue. No other worker could
            // take it from there if this worker blocked.
            is_due = self.set(&mut timers, now, now.after(SOON), now);
        }
        drop(timers);
        if is_due {
            self.wake_to_turn();
        } else {
            fence(Ordering::SeqCst);
            self.watch.expect(at);
        }
    }

    /// Whether the next turn goes on already, or the alarm is set for an expiration or for the earliest time that is allowed.
    fn comes_soon_enough_for(&self, expiration: Nanos) -> bool {
        // If this thread reads either from before a turn, that turn's step 2 is still to come, and sees the expiration.
        self.next_turn.load(Ordering::Relaxed) <= expiration.max(self.not_before()).0
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
        if !timers.has_tokio_timer() {
            return timers.set(&self.clock, now, at, self.is_paused());
        }
        self.setting.store(SETTING, Ordering::Relaxed);
        let is_due = timers.set(&self.clock, now, at, self.is_paused());
        let has_called = self.setting.swap(NOT_SETTING, Ordering::AcqRel) == CALLED;
        has_called || is_due
    }

    /// For the waker of tokio's timer: if a thread is setting the timers, leaves the turn to that thread. Returns
    /// whether it did. The thread holds the lock of the timers, and nobody may turn under that lock.
    pub(crate) fn leave_to_setter(&self) -> bool {
        self.setting.compare_exchange(SETTING, CALLED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// What turns count, and refusals.
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For the driver's task: whether a turn goes on or is about to begin, so that the task has to turn.
    pub(crate) fn is_awake(&self) -> bool {
        self.next_turn.load(Ordering::Relaxed) == AWAKE
    }

    /// For the driver's task, before it checks anything else.
    pub(crate) fn register_driver(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Has the driver's task turn the wheel, unless a turn goes on or is about to begin.
    pub(crate) fn wake_to_turn(&self) {
        let before = self.replace_next_turn(AWAKE);
        if before != AWAKE {
            self.driver.wake();
        }
    }

    /// Sets `next_turn`, and returns what it was. This is a swap even where a store would do, because for the model checker
    /// a store has no order with the swaps that it overtakes.
    fn replace_next_turn(&self, expiration: u64) -> u64 {
        // Release and acquire: a thread that replaces a time, to wake the driver, finds the waker that was registered
        // before the alarm was set for that time.
        self.next_turn.swap(expiration, Ordering::AcqRel)
    }

    /// For a shard that refuses a timer because the wheel is full. A lock of a job may be held here.
    #[cold]
    pub(crate) fn refused(&self) {
        let has_to_tell = self.counters.refused();
        if has_to_tell {
            self.driver.wake();
        }
    }
}

/// For models, which play the runtime's park, and check what it is set for.
#[cfg(all(test, loom))]
impl Alarm {
    /// Whether the park's timers have the wheel turned by `expiration`, without the driver's task.
    pub(crate) fn is_set_for(&self, expiration: Nanos) -> bool {
        let next_turn = self.next_turn.load(Ordering::Relaxed);
        (AWAKE + 1..=expiration.0).contains(&next_turn) && lock(&self.timers).set_for == Nanos(next_turn)
    }
}
