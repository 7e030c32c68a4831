//! Changing an entry while it is pending: its waker and its deadline.

use std::task::Waker;
use std::time::Duration;

use super::Shard;
use crate::platform::clock::Clock;
use crate::wheel::{Key, Moved, Nanos};

impl Shard {
    /// Gives an entry another waker. Returns the waker that it had; or, as the error, `waker` itself if the entry is
    /// gone.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<Waker, Waker> {
        let mut state = self.state.lock();
        match state.hierarchy.get_mut(key) {
            Some(current) => Ok(std::mem::replace(current, waker)),
            None => Err(waker),
        }
    }

    /// Moves an entry to a later deadline, or to the one that it has. Returns whether it is pending: it is not if it
    /// has been handed out.
    #[inline(always)]
    pub(crate) fn postpone(&self, key: Key, to: Nanos) -> bool {
        self.state.lock().hierarchy.postpone(key, to)
    }

    /// Moves an entry to an earlier deadline. `now` is called only if the clock can be paused.
    ///
    /// The error means that the entry is not pending any more. It holds the waker that the caller has to wake: the
    /// entry's own if the wheel has passed the new deadline, none if the entry had been handed out before.
    #[inline(always)]
    pub(crate) fn bring_forward(
        &self,
        key: Key,
        from: Nanos,
        to: Nanos,
        now: impl FnOnce(&Clock) -> Nanos,
    ) -> Result<(), Option<Waker>> {
        // Where the clock can be paused, and so may jump, the next poll has to find the deadline reached. Elsewhere the
        // turner will come to it.
        if self.is_pausable() && to <= now(&self.clock) {
            return Err(self.cancel(key, from));
        }
        let mut state = self.state.lock();
        let moved = state.hierarchy.bring_forward(key, to).ok_or(None)?;
        let elapsed = state.hierarchy.clock();
        match moved {
            Moved::Stays => debug_assert!(to > elapsed),
            // A deadline that the wheel has passed counts as handed out.
            Moved::Expires(_) if to <= elapsed => return Err(self.take_out(state, key)),
            Moved::Expires(expiration) => self.publish_and_request(state, expiration),
        }
        Ok(())
    }

    /// Moves an entry to `to`. If `to` has passed, moves it to `soon` from now instead, or leaves it where it is if it
    /// is due before that. Returns its deadline after that; `None` if it has been handed out, or if the wheel has ended
    /// and so is about to hand it out.
    ///
    /// This wakes nobody, so it may be called under a lock that the waker takes.
    pub(crate) fn move_or_soon(
        &self,
        key: Key,
        from: Nanos,
        to: Nanos,
        now: Nanos,
        soon: Duration,
    ) -> Option<Nanos> {
        let mut state = self.state.lock();
        if state.ended {
            return None;
        }
        let now = now.max(state.hierarchy.clock());
        let to = if to <= now { now.after(soon).min(from) } else { to };
        if to >= from {
            return state.hierarchy.postpone(key, to).then_some(to);
        }
        if let Moved::Expires(expiration) = state.hierarchy.bring_forward(key, to)? {
            self.publish_and_request(state, expiration);
        }
        Some(to)
    }

    /// How far the wheel has come.
    pub(crate) fn elapsed(&self) -> Nanos {
        self.state.lock().hierarchy.clock()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::shard::ShardTurn;
    use crate::engine::shard::test_shards::lone_shard;
    use crate::telemetry::stats::Stats;

    const fn at(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// This holds also for a deadline in the clock's own tick, in which another timer is pending.
    #[test]
    fn a_timer_that_is_moved_to_a_deadline_that_the_turner_has_passed_is_taken_out_and_wakes_its_task() {
        for (from, to) in
            [(10_800, 10_100), (10_800, 10_200), (10_800, 9_000), (70_000, 10_200), (9_000_000, 0)]
        {
            let shard = lone_shard();
            let arm = |deadline| {
                let armed = shard.register(Nanos::ZERO, deadline, Waker::noop().clone());
                armed.expect("not refused").expect("not due")
            };
            let [_, key, _] = [5_000, from, 10_900].map(|micros| arm(at(micros)));
            assert_eq!(
                shard.turn(at(10_200), at(10_200), 100, &mut Vec::new()),
                ShardTurn::Until(at(10_900))
            );

            let moved = shard.bring_forward(key, at(from), at(to), |_| Nanos::ZERO);
            assert!(matches!(moved, Err(Some(_))), "from {from} to {to}: {moved:?}");
            let again = shard.bring_forward(key, at(to), Nanos::ZERO, |_| Nanos::ZERO);
            assert!(matches!(again, Err(None)), "from {from} to {to}: {again:?}");

            let mut stats = Stats::default();
            shard.add_to(&mut stats);
            assert_eq!((stats.fired, stats.cancelled, stats.pending), (1, 1, 1));
            assert_eq!(
                shard.turn(at(10_900), at(10_900), 100, &mut Vec::new()),
                ShardTurn::Until(Nanos::MAX)
            );
        }
    }

    #[test]
    fn a_timer_that_is_moved_to_just_after_what_the_turner_has_passed_is_pending() {
        for from in [10_800, 70_000, 9_000_000] {
            let shard = lone_shard();
            let armed = shard.register(Nanos::ZERO, at(from), Waker::noop().clone());
            let key = armed.expect("not refused").expect("not due");
            assert_eq!(
                shard.turn(at(10_200), at(10_200), 100, &mut Vec::new()),
                ShardTurn::Until(shard.next_turn())
            );
            let to = Nanos(at(10_200).0 + 1);
            assert!(shard.bring_forward(key, at(from), to, |_| Nanos::ZERO).is_ok());
            assert_eq!((shard.pending(), shard.next_turn()), (1, to));
        }
    }
}
