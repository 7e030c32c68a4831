//! Leftovers: entries of dropped timers that stay in the hierarchy for a while.
//!
//! Taking an entry out at once is exact but expensive, for two reasons:
//!
//! - **Again and again.** A task that waits with timeouts makes a timer and drops it, again and again. Taking one entry out
//!   and putting another in takes the lock twice and searches for room. Moving the old entry takes the lock once.
//! - **Far away.** The entry of a timer that another worker armed, or that was armed long ago among very many, is in none of
//!   this processor's caches. Taking it out alone means waiting for a dozen cache lines, one after the other.
//!
//! So the key of a dropped timer goes one of three ways:
//!
//! | a timer is dropped | what becomes of its key |
//! |---|---|
//! | on a wheel that has a bound, that has ended, or whose clock can be paused | its entry is taken out at once |
//! | on another worker's thread, or as one of the oldest among very many | it joins the [batch](Batch) |
//! | otherwise | it becomes the [spare](Spare); if there is a spare already, its entry is taken out at once |
//!
//! A leftover counts as cancelled from the moment in which its timer is dropped. It ends in one of four ways:
//!
//! | when | what becomes of the leftover |
//! |---|---|
//! | a timer is armed in this shard | it is taken over: its entry moves to the new deadline, mostly within its bucket |
//! | the batch is full | it is cleared with all others: their entries are taken out together, so that the processor fetches them at the same time |
//! | the turner turns the shard, at the latest a second after the first key was left | it is cleared with all others |
//! | the wheel ends, or the shard is dropped | it is cleared with all others |
//!
//! Until then the entry keeps its waker: up to 14 wakers in each shard, for at most a second.

mod batch;
mod spare;
mod take_over;

use std::task::Waker;

use super::{CROWD, Shard, State};
use crate::platform::catch_panic::contained;
use crate::platform::shard_of_thread::shard_of_this_thread;
use crate::platform::sync::{OwnLines, ShortLockGuard};
use crate::platform::waker_id::WakerId;
use crate::wheel::{Hierarchy, Key, Nanos};
use batch::{Batch, CAPACITY, Pushed};
use spare::Spare;

/// The leftovers of a shard.
#[derive(Debug)]
pub(super) struct Leftovers {
    batch: Batch,
    spare: OwnLines<Spare>,
}

/// Keys that are cleared beside the batch: the spare, and one for which the batch had no room.
const OTHERS: usize = 2;

impl Leftovers {
    pub(super) fn new() -> Self {
        Self { batch: Batch::new(), spare: OwnLines(Spare::new()) }
    }

    /// When the turner is to clear them. `MAX` if there are none.
    pub(super) fn clear_by(&self) -> Nanos {
        self.batch.clear_by()
    }

    /// Calls `read` with the keys of all leftovers. The caller holds the shard's lock. Some of their entries may have
    /// been handed out.
    pub(super) fn with_keys<R>(&self, read: impl FnOnce(&[Key]) -> R) -> R {
        self.batch.with_keys(self.spare.peek(), read)
    }
}

impl Shard {
    /// For a timer that is dropped: leaves its key as a leftover, or takes its entry out. `waker` tells which waker the
    /// entry has.
    #[inline]
    pub(crate) fn discard(&self, key: Key, deadline: Nanos, waker: Option<WakerId>) {
        if self.published.has_handed_out(deadline) {
            return;
        }
        // A paused clock jumps to the next entry, a bound has to be kept exactly, and nobody clears a wheel that has
        // ended.
        let may_stay = !self.is_pausable() && self.bound.is_none() && !self.has_ended();
        let takes_long = self.published.is_old(key) || shard_of_this_thread(self.shards) != self.number;
        if may_stay && takes_long {
            self.leave_in_batch(key);
            return;
        }
        let is_left = match waker {
            Some(waker) if may_stay => self.leave_as_spare(key, waker),
            _ => false,
        };
        if !is_left {
            drop(self.cancel(key, deadline));
        }
    }

    /// Leaves the key as the spare. Returns false if there is a spare already.
    #[inline]
    pub(super) fn leave_as_spare(&self, key: Key, waker: WakerId) -> bool {
        self.leftovers.spare.leave(key, waker, || self.request_clearing())
    }

    /// Leaves the key in the batch. If the batch is full, clears all leftovers and takes this key's entry out too.
    pub(crate) fn leave_in_batch(&self, key: Key) {
        match self.leftovers.batch.push(key, || self.clock.now()) {
            // `clear_by` is published before `next_turn` is checked; see `alarm`.
            Pushed::First(clear_by) => self.alarm.request(clear_by),
            Pushed::Joined => {}
            Pushed::Full => {
                let mut state = self.state.lock();
                let wakers = self.clear_leftovers_and(&mut state, Some(key));
                drop(state);
                drop(wakers);
            }
        }
    }

    /// Asks the turner to come and clear the leftovers, unless it is to come already.
    #[cold]
    fn request_clearing(&self) {
        if self.leftovers.clear_by() == Nanos::MAX {
            let clear_by = self.leftovers.batch.clear_after(self.clock.now());
            // `clear_by` is published before `next_turn` is checked; see `alarm`.
            self.alarm.request(clear_by);
        }
    }

    /// Takes the lock, and clears the leftovers.
    pub(super) fn lock_and_clear(&self) -> (LeftWakers, ShortLockGuard<'_, State>) {
        let mut state = self.state.lock();
        (self.clear_leftovers(&mut state), state)
    }

    /// Takes the entries of all leftovers out.
    pub(super) fn clear_leftovers(&self, state: &mut State) -> LeftWakers {
        self.clear_leftovers_and(state, None)
    }

    fn clear_leftovers_and(&self, state: &mut State, another: Option<Key>) -> LeftWakers {
        // The batch comes first; see `Spare::clear`.
        let batch = self.leftovers.batch.clear();
        let others = [another, self.leftovers.spare.clear()];
        let mut keys = [None; CAPACITY + OTHERS];
        keys[..CAPACITY].copy_from_slice(&batch);
        keys[CAPACITY..].copy_from_slice(&others);
        let wakers = LeftWakers { wakers: state.hierarchy.cancel_all(keys) };
        state.cancelled += wakers.len() as u64;
        if state.hierarchy.len() < CROWD {
            self.published.set_old_before(0);
        }
        wakers
    }
}

/// How many of `keys` have entries that are still in `hierarchy`.
pub(super) fn count_in(keys: &[Key], hierarchy: &Hierarchy<Waker>) -> usize {
    keys.iter().filter(|&&key| hierarchy.contains(key)).count()
}

/// The wakers of leftovers that were cleared. They are dropped with this, which must happen after the lock is released.
#[derive(Debug)]
#[must_use = "the wakers are dropped with this: release the lock first"]
pub(super) struct LeftWakers {
    wakers: [Option<Waker>; CAPACITY + OTHERS],
}

impl LeftWakers {
    fn len(&self) -> usize {
        self.wakers.iter().flatten().count()
    }
}

impl Drop for LeftWakers {
    fn drop(&mut self) {
        self.wakers.iter_mut().for_each(|waker| drop_stranger(waker.take()));
    }
}

/// Drops a waker of another task. If that panics, the panic ends here. Call it under no lock.
fn drop_stranger(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contained(|| drop(waker));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::shard::test_shards;
    use crate::wheel::Progress;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_discarded_after_the_end_leaves_the_turner_nothing_to_do() {
        // With a number that no thread's shard has.
        let shard = test_shards::shard((2, 2), Duration::from_secs(1), 64);
        let far = shard.clock().now().after(MINUTE);
        let arm = || {
            let armed = shard.register(shard.clock().now(), far, Waker::noop().clone());
            armed.expect("not refused").expect("not due")
        };
        let (before, after) = (arm(), arm());
        shard.discard(before, far, None);
        assert!(shard.next_turn() < far, "it was left for others");
        assert_eq!(shard.end(100, &mut Vec::new()), (1, Progress::Done));
        shard.discard(after, far, None);
        assert_eq!(shard.next_turn(), Nanos::MAX);
    }
}
