//! How entries leave before the driver hands them out.

use std::task::Waker;

use super::cancelled::{Pushed, Unwanted};
use super::{CROWD, Shard, State};
use crate::error::Error;
use crate::platform::placement::shard_of_this_thread;
use crate::platform::sync::ShortLockGuard;
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Nanos};

impl Shard {
    /// For an entry whose deadline has been reached, so that it is on its way out or gone: sees to it that it
    /// is gone. The error is that the wheel has ended before the deadline.
    pub(crate) fn finish(&self, key: Key, deadline: Nanos) -> Result<(), Error> {
        if self.published.has_handed_out(deadline) {
            return Ok(());
        }
        let mut state = self.state.lock();
        let waker = state.hierarchy.cancel(key);
        let taken = usize::from(waker.is_some());
        let ended = self.ended_before(deadline);
        *if ended { &mut state.cancelled } else { &mut state.fired } += taken as u64;
        drop(state);
        self.give_back(taken);
        if ended { Err(Error::shutdown()) } else { Ok(()) }
    }

    /// Whether the shard has ended and `deadline` has not come, by the clock.
    pub(crate) fn ended_before(&self, deadline: Nanos) -> bool {
        self.has_ended() && self.clock.now() < deadline
    }

    /// Takes an entry out, if it is still there, and returns its waker.
    #[inline]
    pub(crate) fn cancel(&self, key: Key, deadline: Nanos) -> Option<Waker> {
        if self.published.has_handed_out(deadline) {
            return None;
        }
        self.take_out(self.state.lock(), key)
    }

    /// As [`cancel`](Self::cancel), for who has the lock. Lets go of it.
    #[inline]
    pub(super) fn take_out(&self, state: ShortLockGuard<'_, State>, key: Key) -> Option<Waker> {
        let waker = self.take_out_in_place(state, key)?;
        self.give_back(1);
        Some(waker)
    }

    /// As [`take_out`](Self::take_out), and leaves the place of the entry to the caller.
    #[inline]
    pub(super) fn take_out_in_place(&self, mut state: ShortLockGuard<'_, State>, key: Key) -> Option<Waker> {
        let waker = state.cancel(key)?;
        // A paused clock would go on to the time of a timer that is no more.
        let disarm = state.hierarchy.is_empty() && self.alarm.is_paused();
        if disarm {
            self.published.set_next_expiration(state.hierarchy.next_expiration());
        }
        drop(state);
        if disarm {
            self.alarm.wake_to_turn();
        }
        Some(waker)
    }

    /// As [`cancel`](Self::cancel), for an owner who does not ask whether it is still there. Where it would take long it
    /// is done later, with others; see `cancelled`. Otherwise one is left for the next timer; see `abandoned`.
    #[inline]
    pub(crate) fn discard(&self, key: Key, deadline: Nanos, waker: Option<WakerId>) {
        if self.published.has_handed_out(deadline) {
            return;
        }
        // Where the clock can be paused it depends on what is pending, and a bound has to be kept to exactly. Of a wheel
        // that has ended nobody takes out what is left.
        let may_stay = !self.is_pausable() && self.bound.is_none() && !self.has_ended();
        let takes_long = self.published.is_old(key) || shard_of_this_thread(self.shards) != self.number;
        if may_stay && takes_long {
            self.discard_with_others(key);
        } else if !(may_stay && waker.is_some_and(|waker| self.abandon(key, waker))) {
            drop(self.cancel(key, deadline));
        }
    }

    pub(crate) fn discard_with_others(&self, key: Key) {
        match self.cancelled.push(key, || self.clock.now()) {
            // Published first, looked second; see `alarm`.
            Pushed::First(clear_by) => self.alarm.request(clear_by),
            Pushed::Joined => {}
            Pushed::Full => {
                let mut state = self.state.lock();
                let unwanted = self.take_out_cancelled(&mut state, Some(key));
                drop(state);
                drop(unwanted);
            }
        }
    }

    /// Has the driver come to take out what was discarded.
    #[cold]
    pub(super) fn request_clearing(&self) {
        if self.clear_by() == Nanos::MAX {
            let clear_by = self.cancelled.clear_after(self.clock.now());
            // Published first, looked second; see `alarm`.
            self.alarm.request(clear_by);
        }
    }

    /// Looks at what was discarded. Under the lock.
    pub(super) fn look_at_discarded<R>(&self, look: impl FnOnce(&[Key]) -> R) -> R {
        self.cancelled.look(self.abandoned.look(), look)
    }

    /// Takes the lock, and takes out what was discarded.
    pub(super) fn lock_and_take_out(&self) -> (Unwanted, ShortLockGuard<'_, State>) {
        let mut state = self.state.lock();
        (self.take_out_cancelled(&mut state, None), state)
    }

    pub(super) fn take_out_cancelled(&self, state: &mut State, another: Option<Key>) -> Unwanted {
        // In this order: see `abandoned`.
        let keys = self.cancelled.take();
        let others = [another, self.abandoned.swap_out()];
        let unwanted = Unwanted::of(keys, others, &mut state.hierarchy);
        state.cancelled += unwanted.len() as u64;
        if state.hierarchy.len() < CROWD {
            self.published.set_old_before(0);
        }
        unwanted
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::shard::{Turn, testing};
    use crate::telemetry::stats::Stats;
    use crate::wheel::Progress;

    const SECOND: Duration = Duration::from_secs(1);

    /// With a number that no thread has.
    fn shard() -> Shard {
        testing::shard((2, 2), SECOND, 64)
    }

    fn arm(shard: &Shard, deadline: Nanos) -> Key {
        let armed = shard.register(shard.clock().now(), deadline, Waker::noop().clone());
        armed.expect("not refused").expect("not due")
    }

    #[test]
    fn what_is_discarded_after_the_end_leaves_the_driver_nothing_to_do() {
        let shard = shard();
        let far = shard.clock().now().after(60 * SECOND);
        let (before, after) = (arm(&shard, far), arm(&shard, far));
        shard.discard(before, far, None);
        assert!(shard.next_turn() < far, "it was left for others");
        assert_eq!(shard.end(100, &mut Vec::new()), (1, Progress::Done));
        shard.discard(after, far, None);
        assert_eq!(shard.next_turn(), Nanos::MAX);
    }

    #[test]
    fn what_its_task_finds_before_the_driver_comes_to_it_is_counted_by_how_it_ended() {
        let shard = shard();
        let now = shard.clock().now();
        let (due, far) = (now.after(10 * SECOND), now.after(60 * SECOND));
        let [_, late] = [(); 2].map(|()| arm(&shard, due));
        let [_, pending] = [(); 2].map(|()| arm(&shard, far));
        let counts = || {
            let mut stats = Stats::default();
            shard.add_to(&mut stats);
            (stats.fired, stats.cancelled, stats.pending)
        };
        // With one of another shard's already.
        let mut wakers = vec![Waker::noop().clone()];
        assert_eq!(shard.turn(due, due, 1, &mut wakers), Turn::More);
        assert!(shard.finish(late, due).is_ok());
        assert_eq!(counts(), (2, 0, 2));
        // One step for the emptied bucket, one for the first of the two.
        assert_eq!(shard.end(2, &mut wakers), (2, Progress::More));
        assert!(shard.finish(pending, far).is_err());
        assert_eq!(counts(), (2, 2, 0));
    }
}
