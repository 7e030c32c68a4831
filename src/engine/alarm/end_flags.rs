//! Flags of a wheel's end: how many shards are held, and whether the last handle is gone. How the end is found is told in
//! `shard::last_holder`.

use super::{Alarm, ParkTimers};
use crate::platform::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, lock};
use crate::wheel::Nanos;

#[derive(Debug)]
pub(super) struct EndFlags {
    /// How many shards are still held. The driver ends with the last one.
    shards: AtomicUsize,
    /// Whether the wheel's last handle is gone.
    orphaned: AtomicBool,
    /// When the driver checks again whether any timer is left. `u64::MAX` while there is a handle.
    recheck: AtomicU64,
}

impl EndFlags {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            shards: AtomicUsize::new(shards),
            orphaned: AtomicBool::new(false),
            recheck: AtomicU64::new(u64::MAX),
        }
    }
}

impl Alarm {
    /// For a shard that is dropped. The last one wakes the driver's task.
    pub(crate) fn release_shard(&self) {
        let is_last = self.end_flags.shards.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.driver.wake();
        }
    }

    /// For the last handle, before it gives up its references.
    pub(crate) fn orphan(&self) {
        // Release: a thread that sees this also sees which references were taken.
        self.end_flags.orphaned.store(true, Ordering::Release);
    }

    /// Whether the wheel's last handle is gone.
    #[inline]
    pub(crate) fn is_orphaned(&self) -> bool {
        self.end_flags.orphaned.load(Ordering::Acquire)
    }

    /// For the driver's task, once no handle is left: when it wants to check again whether any timer is.
    pub(crate) fn set_recheck(&self, at: Nanos) {
        self.end_flags.recheck.store(at.0, Ordering::Relaxed);
    }

    /// For a turner: the time of the driver's next recheck if that is after `now`, otherwise never.
    pub(crate) fn recheck_after(&self, now: Nanos) -> Nanos {
        let at = Nanos(self.end_flags.recheck.load(Ordering::Relaxed));
        if at > now { at } else { Nanos::MAX }
    }

    /// For a thread that has ended the shards, or that may have dropped the last timer: has the driver's task check
    /// whether the wheel is at its end, even if the task has just checked.
    pub(crate) fn wake_to_check(&self) {
        self.driver.wake();
    }

    /// For the driver as it ends: lets go of the runtime, which the driver's waker and the timers hold.
    pub(crate) fn end(&self) {
        self.watch.end();
        drop(self.driver.take());
        let timers = std::mem::replace(&mut *lock(&self.timers), ParkTimers::none());
        drop(timers);
    }
}
