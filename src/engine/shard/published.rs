//! What can be read of a shard without its lock. All of it is written under the lock.

use crate::platform::sync::{AtomicU64, Ordering};
use crate::wheel::{Key, Nanos};

/// The value of `reached` after the end. It makes every deadline count as reached, so that each waiting future finds
/// the end.
const ENDED: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Published {
    /// The turner has nothing to do in this shard before this time. It may be too early, because cancelling does not
    /// raise it. Relaxed everywhere: fences order it against `next_turn`, see `alarm`.
    next_expiration: AtomicU64,
    /// When the turner was here last. Deadlines up to this time have been reached.
    reached: AtomicU64,
    /// Entries with deadlines up to this time have left the hierarchy.
    handed_out: AtomicU64,
    /// When the last turn came that was late by more than half a second, or zero. Relaxed: it is only a time.
    late_turn: AtomicU64,
    /// Entries whose insertion number is lower are old. Zero unless there are very many entries. Relaxed: it only tells
    /// which of two ways to take. For the same reason it does no harm that the number after the highest is zero.
    old_before: AtomicU64,
}

impl Published {
    pub(super) fn new() -> Self {
        Self {
            next_expiration: AtomicU64::new(u64::MAX),
            reached: AtomicU64::new(0),
            handed_out: AtomicU64::new(0),
            late_turn: AtomicU64::new(0),
            old_before: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn next_expiration(&self) -> Nanos {
        Nanos(self.next_expiration.load(Ordering::Relaxed))
    }

    pub(super) fn set_next_expiration(&self, next: Option<Nanos>) {
        self.next_expiration.store(next.unwrap_or(Nanos::MAX).0, Ordering::Relaxed);
    }

    /// Whether the turner has come to `deadline`, or the shard has ended.
    #[inline]
    pub(super) fn has_reached(&self, deadline: Nanos) -> bool {
        // Acquire: this thread sees what the turner did to the entry before.
        self.reached.load(Ordering::Acquire) >= deadline.0
    }

    /// Call this before the wakers are woken, so that each woken task finds its deadline reached.
    pub(super) fn set_reached(&self, now: Nanos) {
        // If the clock seems to go back, `reached` stays.
        let reached = self.reached.load(Ordering::Relaxed).max(now.0);
        self.reached.store(reached, Ordering::Release);
    }

    /// Whether entries with this deadline have left the hierarchy.
    #[inline]
    pub(super) fn has_handed_out(&self, deadline: Nanos) -> bool {
        self.handed_out.load(Ordering::Acquire) >= deadline.0
    }

    /// Call this after the entries have left the hierarchy.
    pub(super) fn set_handed_out(&self, through: Nanos) {
        self.handed_out.store(through.0, Ordering::Release);
    }

    pub(super) fn late_turn(&self) -> Nanos {
        Nanos(self.late_turn.load(Ordering::Relaxed))
    }

    pub(super) fn set_late_turn(&self, now: Nanos) {
        self.late_turn.store(now.0, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_old(&self, key: Key) -> bool {
        u64::from(key.insertion()) < self.old_before.load(Ordering::Relaxed)
    }

    /// Whether there are very many entries, some of them old.
    #[inline]
    pub(super) fn is_crowd(&self) -> bool {
        self.old_before.load(Ordering::Relaxed) > 0
    }

    pub(super) fn set_old_before(&self, insertion: u32) {
        self.old_before.store(insertion.into(), Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.reached.load(Ordering::Acquire) == ENDED
    }

    pub(super) fn set_ended(&self) {
        self.set_next_expiration(None);
        self.reached.store(ENDED, Ordering::Release);
    }
}
