//! When the driver is to wake: the agreement between it and those who insert.
//!
//! The driver sleeps until a time that it publishes as `armed`. Whoever inserts something earlier sees to it
//! that the driver wakes earlier. Neither may miss the other:
//!
//! ```text
//!   inserter                                    driver
//!   1. publish the shard's next expiration      1. publish `armed`
//!   2. look at `armed`: lower it if later       2. look at the shards again: turn if one is earlier
//! ```
//!
//! Each has a sequentially consistent fence between the two, so at least one sees the other's store.
//! While the driver is awake `armed` is [`AWAKE`], and inserters leave it alone: it has step 2 before it.
//!
//! | `armed` | who set it | what an inserter with an earlier expiration does |
//! |---|---|---|
//! | [`AWAKE`] | driver as it starts to look; whoever woke it | nothing |
//! | a time | driver, or an inserter through the thread | wakes the driver, or sets the thread's time |
//! | never | driver with nothing to wait for | the same |
//!
//! # Two routes
//!
//! A thread of the alarm's own waits for the time, because that is an order of magnitude more precise than
//! tokio's timers, and because it still works while the worker that holds tokio's I/O driver is blocked. On a
//! multi-thread runtime inserters set the thread's time themselves: a driver woken from a worker would
//! stand first in that worker's queue and wait there for as long as the worker is blocked.
//!
//! On a current-thread runtime the clock may be paused. There the driver keeps one of tokio's timers armed
//! too, so inserters wake the driver, which then is polled before the runtime parks.

mod bell;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bell::{Bell, ThreadState};

use crate::clock::Clock;
use crate::notes::Notes;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, AtomicWaker, Condvar, Mutex, MutexGuard, Ordering, fence, lock,
};
use crate::tick::Nanos;

/// The value of `armed` while the driver is going to look at the shards in any case. No expiration is less.
const AWAKE: u64 = 0;

#[derive(Debug)]
pub(crate) struct Alarm {
    armed: AtomicU64,
    driver: AtomicWaker,
    /// Whether the clock of the driver's runtime can be paused.
    pausable: bool,
    /// Whether it was paused when the driver last looked.
    paused: AtomicBool,
    clock: Clock,
    bell: Mutex<Bell>,
    bell_changed: Condvar,
    /// How many shards somebody still holds. The driver ends with the last one.
    shards: AtomicUsize,
    /// Whether the wheel's last handle is gone.
    orphaned: AtomicBool,
    /// In here, because everything that notes something has the alarm.
    notes: Notes,
}

enum Set {
    Always { then: Nanos },
    IfEarlier,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, pausable: bool, shards: usize, notes: Notes) -> Self {
        Self {
            armed: AtomicU64::new(AWAKE),
            driver: AtomicWaker::new(),
            pausable,
            paused: AtomicBool::new(false),
            clock,
            bell: Mutex::new(Bell::default()),
            bell_changed: Condvar::new(),
            shards: AtomicUsize::new(shards),
            orphaned: AtomicBool::new(false),
            notes,
        }
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        thread::spawn(self.clone())
    }

    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// Whether the clock was paused when the driver last looked.
    pub(crate) fn is_paused(&self) -> bool {
        // Relaxed: a change that is seen late costs a wake-up, or leaves tokio's timer armed for too long.
        self.pausable && self.paused.load(Ordering::Relaxed)
    }

    /// For inserters, after publishing that `expiration` is their shard's next: the driver has to be awake by
    /// then. Called without the shard's lock.
    pub(crate) fn request(&self, expiration: Nanos) {
        // Published first, looked second.
        fence(Ordering::SeqCst);
        if expiration.0 >= self.armed.load(Ordering::Relaxed) {
            return;
        }
        if self.pausable {
            self.wake_driver();
        } else {
            self.set(expiration, Set::IfEarlier);
        }
    }

    /// What is noted of the wheel.
    pub(crate) const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// For the driver, before it looks at the shards: tells inserters that it is going to.
    pub(crate) fn look(&self, driver: &Waker) {
        self.driver.register(driver);
        self.replace_armed(AWAKE);
    }

    /// For the driver: looks whether the clock is paused.
    pub(crate) fn look_at_clock(&self) -> bool {
        let paused = self.pausable && self.clock.is_paused();
        self.paused.store(paused, Ordering::Relaxed);
        paused
    }

    /// For the driver, after it has looked: wakes it at `expiration`. It has to look at the shards once more. `then` is
    /// a guess at what it will be armed for after that.
    pub(crate) fn arm(&self, expiration: Nanos, then: Nanos) {
        self.set(expiration, Set::Always { then });
        // Armed first, looked second.
        fence(Ordering::SeqCst);
    }

    /// For the driver, on the thread's route: as [`arm`](Self::arm), whatever the shards hold. On the other there is
    /// one worker only, so no other could take the driver.
    pub(crate) fn arm_thread(&self, time: Nanos) {
        if !self.pausable {
            self.set(time, Set::Always { then: Nanos::MAX });
        }
    }

    fn set(&self, expiration: Nanos, set: Set) {
        let mut bell = lock(&self.bell);
        // Relaxed: the time that is compared here is set under the lock.
        if matches!(set, Set::IfEarlier) && expiration.0 >= self.armed.load(Ordering::Relaxed) {
            return;
        }
        self.replace_armed(expiration.0);
        let is_silent = self.is_paused();
        let instant = |time: Nanos| {
            // The thread goes by std's clock. For an expiration that has passed it rings at once.
            if time == Nanos::MAX || is_silent { None } else { self.clock.std_instant(time, self.pausable) }
        };
        bell.then = match set {
            Set::Always { then } => {
                // The driver is up and about: what the thread rang for meanwhile is no lateness of its next turn.
                bell.rang_for = None;
                instant(then)
            }
            // What the driver waited for comes after what has come before it.
            Set::IfEarlier => bell.at,
        };
        bell.at = instant(expiration);
        if bell.at.is_some_and(|at| bell.thread.oversleeps(at)) {
            bell.thread = ThreadState::Awake;
            // Under the lock: nobody else notifies the thread now, so nobody may come in between.
            self.bell_changed.notify_one();
        }
    }

    /// Wakes the driver, unless it is awake: to look at the shards again, and arm what is right for them.
    pub(crate) fn wake_driver(&self) {
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

    /// For the driver: how long ago the thread was to wake it, if it did since this was asked last or is about to. A
    /// time that had passed when it was set counts from then.
    pub(crate) fn take_lateness(&self) -> Duration {
        // In a model the clock stands still.
        if cfg!(loom) {
            return Duration::ZERO;
        }
        let mut bell = lock(&self.bell);
        // What lies ahead is late by nothing.
        let at = bell.rang_for.take().or(bell.at);
        at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// For the thread, when its time has come.
    fn ring(&self, mut bell: MutexGuard<'_, Bell>) {
        bell.rang_for = bell.at.take();
        // Under the lock, so that an inserter who is about to set the thread's time sees it.
        let awake = self.replace_armed(AWAKE) == AWAKE;
        drop(bell);
        if !awake {
            self.driver.wake();
        }
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

    /// For whoever has ended the shards, or may have left nothing to wait for: the driver has to look, also if it has
    /// just looked.
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

    /// For the driver as it ends: ends the thread, and lets go of the runtime, which the waker holds.
    pub(crate) fn end(&self) {
        drop(self.driver.take());
        lock(&self.bell).ended = true;
        self.bell_changed.notify_one();
    }
}

/// For models, which play the thread, and look at what the driver sleeps on.
#[cfg(all(test, loom))]
impl Alarm {
    pub(crate) fn run_thread(&self) {
        thread::run(self);
    }

    /// What the thread does when its time has come, if it has one.
    pub(crate) fn ring_if_set(&self) {
        let bell = lock(&self.bell);
        if bell.at.is_some() {
            self.ring(bell);
        }
    }

    /// Whether a driver that sleeps will be awake by `expiration`.
    pub(crate) fn is_set_for(&self, expiration: Nanos) -> bool {
        let armed = self.armed.load(Ordering::Relaxed);
        let rings = lock(&self.bell)
            .at
            .is_some_and(|at| Some(at) <= self.clock.std_instant(expiration, self.pausable));
        // Where the clock can be paused, `armed` is also the time of one of tokio's timers.
        (AWAKE + 1..=expiration.0).contains(&armed) && (self.pausable || rings)
    }
}
