//! Timers with a tolerance, whose deadlines have been rounded up.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Hierarchy, Key, Nanos};

impl Shard {
    /// As [`register`](Self::register), for a deadline that has been rounded up.
    pub(crate) fn register_rounded(
        &self,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        self.register_by(Hierarchy::insert_rounded_and_tell, now, deadline, waker)
    }

    /// Moves an entry to a deadline that has been rounded up, and that the caller's clock has not reached. The error
    /// means the same as that of [`bring_forward`](Self::bring_forward).
    pub(crate) fn reschedule_rounded(&self, key: Key, to: Nanos) -> Result<(), Option<Waker>> {
        let mut state = self.state.lock();
        // The turner may have come to the new deadline meanwhile.
        if to <= state.hierarchy.clock() {
            return Err(self.take_out(state, key));
        }
        let expiration = state.hierarchy.reschedule_rounded_and_tell(key, to).ok_or(None)?;
        self.publish_and_request(state, expiration);
        Ok(())
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
        let key = shard.register_rounded(at(0), at(1_000), waker).expect("not refused").expect("not due");

        assert_eq!(shard.turn(at(100), at(10), 100, &mut Vec::new()), ShardTurn::Until(at(1_000)));
        let waker = shard.reschedule_rounded(key, at(64)).expect_err("it has passed");
        waker.expect("it was pending").wake();
        assert!(task.is_woken());
        assert_eq!(shard.pending(), 0);
    }
}
