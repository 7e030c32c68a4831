//! Timers with a tolerance, whose deadlines have been rounded up.

use std::task::Waker;

use super::Shard;
use crate::wheel::{Key, Moved, Nanos};

impl Shard {
    /// Moves an entry to a deadline that has been rounded up, and that the caller's clock has not reached. The error
    /// means the same as that of [`bring_forward`](Self::bring_forward).
    pub(crate) fn reschedule_rounded(&self, key: Key, to: Nanos) -> Result<(), Option<Waker>> {
        let mut state = self.state.lock();
        // The turner may have come to the new deadline meanwhile.
        if to <= state.hierarchy.clock() {
            return Err(self.take_out(state, key));
        }
        let moved = state.hierarchy.reschedule_if(Nanos::ZERO, key, to, |_| true).ok_or(None)?;
        if let Moved::Expires(expiration) = moved {
            self.publish_and_request(state, expiration);
        }
        Ok(())
    }

    /// As [`move_or_soon`](Self::move_or_soon), to a deadline that was rounded. `None` also if the wheel has passed that.
    pub(crate) fn move_rounded(&self, key: Key, to: Nanos) -> Option<Nanos> {
        let mut state = self.state.lock();
        if state.ended || to <= state.hierarchy.clock() {
            return None;
        }
        if let Moved::Expires(expiration) = state.hierarchy.reschedule_if(Nanos::ZERO, key, to, |_| true)? {
            self.publish_and_request(state, expiration);
        }
        Some(to)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use tokio_test::task;

    use super::*;
    use crate::engine::shard::ShardTurn;
    use crate::engine::shard::test_shards::lone_shard;

    /// The turner may have turned since the caller read the clock.
    #[test]
    fn a_timer_that_is_moved_to_a_deadline_that_the_turner_has_passed_gives_back_its_waker() {
        let at = |millis| Nanos::from_duration(Duration::from_millis(millis));
        let shard = lone_shard();
        let mut task = task::spawn(());
        let waker = task.enter(|cx, _| cx.waker().clone());
        shard.register(at(0), at(10), Waker::noop().clone()).expect("not refused");
        let key = shard.register(at(0), at(1_000), waker).expect("not refused").expect("not due");

        assert_eq!(shard.turn(at(100), at(10), 100, &mut Vec::new()), ShardTurn::Until(at(960)));
        let waker = shard.reschedule_rounded(key, at(64)).expect_err("it has passed");
        waker.expect("it was pending").wake();
        assert!(task.is_woken());
        assert_eq!(shard.pending(), 0);
    }
}
