//! When the wheel is to be turned next: the agreement between those who turn it and those who insert.
//!
//! Whoever has turned the wheel publishes the time of the next turn as `armed`, and sets the timers of the runtime's
//! park for it. Whoever inserts something earlier sets them to earlier. Neither may miss the other:
//!
//! ```text
//!   inserter                                    turner
//!   1. publish the shard's next expiration      1. publish `armed`
//!   2. look at `armed`: lower it if later       2. look at the shards again: turn if one is earlier
//! ```
//!
//! Each has a sequentially consistent fence between the two, so at least one sees the other's store.
//! During a turn `armed` is [`AWAKE`], and inserters leave it alone: the turner has step 2 before it. Two turns at
//! the same time do no harm, as each ends with step 2.
//!
//! | `armed` | who set it | what an inserter with an earlier expiration does |
//! |---|---|---|
//! | [`AWAKE`] | a turner as it begins; whoever woke the driver's task to turn | nothing |
//! | a time | a turner as it ends, or an inserter | sets the timers, once exactly and then for half of the time |
//! | never | a turner with nothing to wait for | the same |
//!
//! An inserter sets the timers exactly the first time after a turn. The next one sets them for half of the time that is
//! left: a row of timers, each earlier than the one before, so takes two system calls, and one more turn. Where the clock
//! can be paused each sets them exactly, as a test would see the turn in between.

#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android")))]
mod timer_fd;
#[cfg(not(all(feature = "timerfd", not(loom), any(target_os = "linux", target_os = "android"))))]
#[path = "no_timer_fd.rs"]
mod timer_fd;
mod timers;

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

pub(crate) use timers::Timers;

use crate::engine::watchdog::{Watch, Watched};
use crate::platform::clock::Clock;
use crate::platform::sync::{AtomicBool, AtomicU64, AtomicUsize, AtomicWaker, Mutex, Ordering, fence, lock};
use crate::telemetry::notes::Notes;
use crate::wheel::tick::Nanos;

/// The value of `armed` while somebody is going to look at the shards in any case. No expiration is less.
const AWAKE: u64 = 0;

/// When tokio's timer calls for what has passed: in its next millisecond.
const SOON: Duration = Duration::from_millis(1);

/// The values of `setting`.
const NOT_SETTING: usize = 0;
const SETTING: usize = 1;
const CALLED: usize = 2;

#[derive(Debug)]
pub(crate) struct Alarm {
    armed: AtomicU64,
    /// When the next turn was to be made: never before it was asked for. Never, once somebody has begun it.
    due: AtomicU64,
    /// The driver's task.
    driver: AtomicWaker,
    /// Whether the clock of the driver's runtime can be paused.
    pausable: bool,
    /// Whether it was paused when somebody looked last.
    paused: AtomicBool,
    clock: Clock,
    timers: Mutex<Timers>,
    /// Whether tokio's timer is being set, and has called meanwhile: then it calls under the lock.
    setting: AtomicUsize,
    watch: Watch,
    /// How many shards somebody still holds. The driver ends with the last one.
    shards: AtomicUsize,
    /// Whether the wheel's last handle is gone.
    orphaned: AtomicBool,
    /// When the driver looks again whether timers are left, once no handle is.
    look_again: AtomicU64,
    /// In here, because everything that notes something has the alarm.
    notes: Notes,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, pausable: bool, shards: usize, notes: Notes) -> Self {
        Self {
            armed: AtomicU64::new(AWAKE),
            due: AtomicU64::new(u64::MAX),
            driver: AtomicWaker::new(),
            pausable,
            paused: AtomicBool::new(false),
            clock,
            timers: Mutex::new(Timers::none()),
            setting: AtomicUsize::new(NOT_SETTING),
            watch: Watch::new(|| clock.now()),
            shards: AtomicUsize::new(shards),
            orphaned: AtomicBool::new(false),
            look_again: AtomicU64::new(u64::MAX),
            notes,
        }
    }

    /// For the driver as it begins: the timers that the runtime's park looks at.
    pub(crate) fn set_timers(&self, timers: Timers) {
        *lock(&self.timers) = timers;
    }

    /// Has the watchdog look after the wheel: where a worker that blocks keeps others from turning it, or, if nothing
    /// else does, `exactly` when it is due.
    pub(crate) fn have_watched(self: &Arc<Self>, exactly: bool) -> io::Result<()> {
        self.watch.begin(self, exactly)
    }

    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// Whether the clock was paused when somebody looked last.
    pub(crate) fn is_paused(&self) -> bool {
        // Relaxed: a change that is seen late costs a wake-up, or leaves tokio's timer armed for too long.
        self.pausable && self.paused.load(Ordering::Relaxed)
    }

    /// For inserters, after publishing that `expiration` is their shard's next: there has to be a turn by then. Called
    /// without the shard's lock.
    pub(crate) fn request(&self, expiration: Nanos) {
        // Published first, looked second.
        fence(Ordering::SeqCst);
        if expiration.0 < self.armed.load(Ordering::Relaxed) {
            self.bring_forward(expiration);
        }
    }

    #[cold]
    fn bring_forward(&self, expiration: Nanos) {
        // There the task turns before the runtime parks, and so before the clock jumps.
        if self.is_paused() {
            return self.wake_to_turn();
        }
        let mut timers = lock(&self.timers);
        // Relaxed: the time that is compared here is set under the lock.
        if expiration.0 >= self.armed.load(Ordering::Relaxed) {
            return;
        }
        let now = self.clock.now();
        let at = if std::mem::replace(&mut timers.brought_forward, true) && !self.pausable {
            Nanos(now.0.min(expiration.0) + expiration.0.saturating_sub(now.0) / 2)
        } else {
            expiration
        };
        let mut is_due = self.set(&mut timers, now, at, at.max(now));
        if is_due && !self.pausable {
            // The task would stand first in this worker's queue, where nobody could take it if this worker blocked.
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

    /// Publishes the time of the next turn, and since when that is due, and sets the timers. Tells whether the time has
    /// come already, so that none will call.
    fn set(&self, timers: &mut Timers, now: Nanos, at: Nanos, due: Nanos) -> bool {
        self.due.store(due.0, Ordering::Relaxed);
        self.replace_armed(at.0);
        if !timers.have_tokio_timer() {
            return timers.set(&self.clock, now, at, self.is_paused());
        }
        self.setting.store(SETTING, Ordering::Relaxed);
        let is_due = timers.set(&self.clock, now, at, self.is_paused());
        self.setting.swap(NOT_SETTING, Ordering::AcqRel) == CALLED || is_due
    }

    /// For tokio's timer as it calls: whether the timers are being set. Whoever sets them then sees to it that there is
    /// a turn, as nobody may turn under their lock.
    pub(crate) fn is_left_to_setter(&self) -> bool {
        self.setting.compare_exchange(SETTING, CALLED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// What is noted of the wheel.
    pub(crate) const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// For a turner, before it looks at the shards: tells inserters that it is going to. Returns when it was to, unless
    /// another is at it.
    pub(crate) fn begin_turn(&self) -> Option<Nanos> {
        self.replace_armed(AWAKE);
        // Relaxed: a time that is about to be replaced makes lateness out of what another turner found.
        let due = Nanos(self.due.swap(u64::MAX, Ordering::Relaxed));
        (due < Nanos::MAX).then_some(due)
    }

    /// For a turner: looks whether the clock is paused.
    pub(crate) fn look_at_clock(&self) -> bool {
        let paused = self.pausable && self.clock.is_paused();
        self.paused.store(paused, Ordering::Relaxed);
        paused
    }

    /// For a turner, after it has looked: has it called `at` that time. It has to look at the shards once more. Tells
    /// whether the time has come already, so that nobody will call.
    pub(crate) fn arm(&self, at: Nanos) -> bool {
        let now = self.clock.now();
        self.arm_due(now, at, at.max(now))
    }

    fn arm_due(&self, now: Nanos, at: Nanos, due: Nanos) -> bool {
        let mut timers = lock(&self.timers);
        timers.brought_forward = false;
        let is_due = self.set(&mut timers, now, at, due);
        drop(timers);
        // Armed first, looked second.
        fence(Ordering::SeqCst);
        self.watch.expect(at);
        is_due
    }

    /// For a turner that has done as much as it may at a time: has the rest, which was to be done `due_since` then, done
    /// when others have run.
    pub(crate) fn arm_rest(&self, due_since: Nanos) {
        // Where a paused clock may be, the task comes before the runtime parks.
        if !self.pausable && lock(&self.timers).have_timer_fd() {
            let now = self.clock.now();
            self.arm_due(now, now, due_since);
        } else {
            self.due.store(due_since.0, Ordering::Relaxed);
            self.driver.wake();
        }
    }

    /// Whether somebody is to look at the shards: for the driver's task, which does that.
    pub(crate) fn is_awake(&self) -> bool {
        self.armed.load(Ordering::Relaxed) == AWAKE
    }

    /// For the driver's task, before it looks at anything.
    pub(crate) fn register_driver(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Has the driver's task look at the shards, unless somebody is at it.
    pub(crate) fn wake_to_turn(&self) {
        if self.replace_armed(AWAKE) != AWAKE {
            self.driver.wake();
        }
    }

    /// Sets `armed`, and returns what it was. A swap also where a store would do, because the model checker
    /// takes a store to be in no order with the swaps that it overtakes.
    fn replace_armed(&self, expiration: u64) -> u64 {
        // Release and acquire: whoever takes a time away, to wake the driver, finds the waker that was
        // registered before that time was armed.
        self.armed.swap(expiration, Ordering::AcqRel)
    }

    /// For the driver's task: when it wants to look again.
    pub(crate) fn set_look_again(&self, at: Nanos) {
        self.look_again.store(at.0, Ordering::Relaxed);
    }

    /// For a turner: when the driver's task is to look again, if that is after `now`.
    pub(crate) fn look_again_after(&self, now: Nanos) -> Nanos {
        let at = Nanos(self.look_again.load(Ordering::Relaxed));
        if at > now { at } else { Nanos::MAX }
    }

    /// For a shard whose last owner has gone.
    pub(crate) fn release_shard(&self) {
        if self.shards.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.driver.wake();
        }
    }

    /// For the last handle, before it gives up its references.
    pub(crate) fn orphan(&self) {
        // Release: whoever finds it set finds the references that were taken, and the spares that were used.
        self.orphaned.store(true, Ordering::Release);
    }

    /// Whether the wheel's last handle is gone.
    #[inline]
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    /// For whoever has ended the shards, or may have left nothing to wait for: the driver's task has to look, also if it
    /// has just looked.
    pub(crate) fn wake_to_end(&self) {
        self.driver.wake();
    }

    /// A timer was refused, because the wheel is full: for a shard, which may be asked while a lock of a job's is held.
    #[cold]
    pub(crate) fn refused(&self) {
        if self.notes.refused() {
            self.driver.wake();
        }
    }

    /// For the timerfd's waker, which is called once: has it called the next time, too.
    pub(crate) fn await_timer_fd(&self) {
        lock(&self.timers).await_timer_fd();
    }

    /// For the driver as it ends: lets go of the runtime, which the waker and the timers hold.
    pub(crate) fn end(&self) {
        self.watch.end();
        drop(self.driver.take());
        let timers = std::mem::replace(&mut *lock(&self.timers), Timers::none());
        drop(timers);
    }
}

impl Watched for Alarm {
    fn next_turn(&self) -> Option<Nanos> {
        match self.armed.load(Ordering::Relaxed) {
            AWAKE | u64::MAX => None,
            at => Some(Nanos(at)),
        }
    }

    fn wake(&self, exactly: bool) {
        if exactly {
            self.wake_to_turn();
        } else {
            // It turns nothing: its worker looks at the runtime's input and timers after it.
            self.driver.wake();
        }
    }
}

/// For models, which play the runtime's park, and look at what it is set for.
#[cfg(all(test, loom))]
impl Alarm {
    /// Whether there will be a turn by `expiration`, if the driver's task is not to be polled.
    pub(crate) fn is_set_for(&self, expiration: Nanos) -> bool {
        let armed = self.armed.load(Ordering::Relaxed);
        (AWAKE + 1..=expiration.0).contains(&armed) && lock(&self.timers).set_for == Nanos(armed)
    }
}
