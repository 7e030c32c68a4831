//! What is known of a shard without its lock. All of it is written under the lock.

use crate::platform::sync::{AtomicU64, Ordering};
use crate::wheel::{Key, Nanos};

/// The time in `reached` after the end, when nobody's deadline will be reached any more: whoever waits has
/// to look.
const ENDED: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Published {
    /// The driver has nothing to do in this shard before then. It may be earlier than the truth, because
    /// cancelling does not raise it. Relaxed everywhere: fences order it against `armed`, see `alarm`.
    next_expiration: AtomicU64,
    /// The driver has been here at this time: deadlines up to it have elapsed.
    reached: AtomicU64,
    /// Entries with deadlines up to this have left the hierarchy.
    handed_out: AtomicU64,
    /// Entries whose insertion has a lesser number are old; zero where there are not very many. Relaxed: it only tells
    /// which of two ways to take. So it does no harm either that after the last number comes zero.
    old_before: AtomicU64,
}

impl Published {
    pub(super) fn new() -> Self {
        Self {
            next_expiration: AtomicU64::new(u64::MAX),
            reached: AtomicU64::new(0),
            handed_out: AtomicU64::new(0),
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

    /// Whether the driver has come to `deadline`, or the shard has ended.
    #[inline]
    pub(super) fn has_reached(&self, deadline: Nanos) -> bool {
        // Acquire: what the driver did to the entry before, happened.
        self.reached.load(Ordering::Acquire) >= deadline.0
    }

    /// To be told before the wakers are woken, so that whoever is woken finds that its deadline has been reached.
    pub(super) fn set_reached(&self, now: Nanos) {
        // A clock that seems to go back stands still.
        let reached = self.reached.load(Ordering::Relaxed).max(now.0);
        self.reached.store(reached, Ordering::Release);
    }

    #[inline]
    pub(super) fn has_handed_out(&self, deadline: Nanos) -> bool {
        self.handed_out.load(Ordering::Acquire) >= deadline.0
    }

    /// To be told after the entries have left.
    pub(super) fn set_handed_out(&self, through: Nanos) {
        self.handed_out.store(through.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_old(&self, key: Key) -> bool {
        u64::from(key.insertion()) < self.old_before.load(Ordering::Relaxed)
    }

    /// Whether there are very many entries, and some of them old.
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
