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
//! Each stores first and loads second, all sequentially consistent, so at least one sees the other's store.
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

mod thread;

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::sync::{AtomicU64, AtomicUsize, AtomicWaker, Condvar, Mutex, MutexGuard, Ordering, lock};
use crate::tick::Nanos;

/// The value of `armed` while the driver is going to look at the shards in any case. No expiration is less.
const AWAKE: u64 = 0;

#[derive(Debug)]
pub(crate) struct Alarm {
    armed: AtomicU64,
    driver: AtomicWaker,
    /// Whether the clock of the driver's runtime can be paused.
    pausable: bool,
    clock: Clock,
    bell: Mutex<Bell>,
    bell_changed: Condvar,
    /// How many shards somebody still holds. The driver ends with the last one.
    shards: AtomicUsize,
    wakeups: AtomicU64,
}

/// What the thread waits for.
#[derive(Debug, Default)]
struct Bell {
    at: Option<Instant>,
    /// The expiration for which it rang last. If that is armed again, the driver's clock is paused.
    rung_for: Option<u64>,
    ended: bool,
}

impl Alarm {
    pub(crate) fn new(clock: Clock, pausable: bool, shards: usize) -> Self {
        Self {
            armed: AtomicU64::new(AWAKE),
            driver: AtomicWaker::new(),
            pausable,
            clock,
            bell: Mutex::new(Bell::default()),
            bell_changed: Condvar::new(),
            shards: AtomicUsize::new(shards),
            wakeups: AtomicU64::new(0),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        thread::spawn(self.clone())
    }

    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// For inserters, after publishing that `expiration` is their shard's next: the driver has to be awake by
    /// then. Called without the shard's lock.
    pub(crate) fn request(&self, expiration: Nanos) {
        if expiration.0 >= self.armed.load(Ordering::SeqCst) {
            return;
        }
        if self.pausable {
            self.wake_driver();
        } else {
            self.set(expiration, Set::IfEarlier);
        }
    }

    /// For the driver, when it has been woken.
    pub(crate) fn count_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// For the driver, before it looks at the shards: tells inserters that it is going to.
    pub(crate) fn look(&self, driver: &Waker) {
        self.driver.register(driver);
        self.armed.store(AWAKE, Ordering::SeqCst);
    }

    /// For the driver, after it has looked: wakes it at `expiration`. It has to look at the shards once more.
    pub(crate) fn arm(&self, expiration: Nanos) {
        self.set(expiration, Set::Always);
    }

    fn set(&self, expiration: Nanos, set: Set) {
        let mut bell = lock(&self.bell);
        if matches!(set, Set::IfEarlier) && expiration.0 >= self.armed.load(Ordering::SeqCst) {
            return;
        }
        self.armed.store(expiration.0, Ordering::SeqCst);
        let stands_still = self.pausable && bell.rung_for == Some(expiration.0);
        let before = bell.at;
        bell.at = if expiration == Nanos::MAX || stands_still {
            None
        } else {
            // The thread goes by std's clock, which is ahead of tokio's once that has been paused. Saturating
            // because an expiration may already have passed; the thread then rings at once.
            let wait = Duration::from_nanos(expiration.0.saturating_sub(self.clock.now().0));
            Instant::now().checked_add(wait)
        };
        // A thread that waits for something earlier will see the change when it wakes.
        if bell.at.is_some_and(|at| before.is_none_or(|before| at < before)) {
            drop(bell);
            self.bell_changed.notify_one();
        }
    }

    /// Wakes the driver, unless it is awake.
    pub(crate) fn wake_driver(&self) {
        if self.armed.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            self.driver.wake();
        }
    }

    /// For the thread, when its time has come.
    fn ring(&self, mut bell: MutexGuard<'_, Bell>) {
        bell.at = None;
        bell.rung_for = Some(self.armed.load(Ordering::SeqCst));
        // Under the lock, so that an inserter who is about to set the thread's time sees it.
        let awake = self.armed.swap(AWAKE, Ordering::SeqCst) == AWAKE;
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

    /// For whoever has ended the shards: the driver has to look, also if it has just looked.
    pub(crate) fn wake_to_end(&self) {
        self.driver.wake();
    }

    /// For the driver as it ends: ends the thread.
    pub(crate) fn end(&self) {
        lock(&self.bell).ended = true;
        self.bell_changed.notify_one();
    }
}

enum Set {
    Always,
    IfEarlier,
}
