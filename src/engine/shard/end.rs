//! The end of a shard, and how a timer finds that it has ended: by its deadline or with its wheel.

use std::task::Waker;

use super::Shard;
use crate::error::Error;
use crate::wheel::{Key, Nanos, Progress};

impl Shard {
    /// Ends the shard, and adds the wakers of up to `batch` pending timers to `pending`. Call it again until it is
    /// done. The first call returns how many timers were pending, each further call zero.
    pub(crate) fn end(&self, batch: usize, pending: &mut Vec<Waker>) -> (usize, Progress) {
        let (left_wakers, mut state) = self.lock_and_clear();
        let ended = if std::mem::replace(&mut state.ended, true) { 0 } else { state.hierarchy.len() };
        self.counters().shard_ends(ended);
        let before = pending.len();
        let progress = state.hierarchy.advance(Nanos::MAX, batch, pending);
        let taken = pending.len() - before;
        state.cancelled += taken as u64;
        self.published.set_ended();
        drop(state);
        drop(left_wakers);
        self.give_back(taken);
        (ended, progress)
    }

    /// For a timer whose deadline the turner has [reached](Self::has_reached): takes its entry out, if the turner has
    /// not handed it out yet. Returns how the timer ended: `Ok` if its deadline has come, the error if the wheel ended
    /// before.
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

    /// Whether the shard has ended although the clock has not come to `deadline`.
    pub(crate) fn ended_before(&self, deadline: Nanos) -> bool {
        self.has_ended() && self.clock.now() < deadline
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::shard::{ShardTurn, test_shards};
    use crate::telemetry::stats::Stats;
    use crate::wheel::Progress;

    const SECOND: Duration = Duration::from_secs(1);

    /// With a number that no thread's shard has.
    fn shard() -> Shard {
        test_shards::shard((2, 2), SECOND, 64)
    }

    fn arm(shard: &Shard, deadline: Nanos) -> Key {
        let armed = shard.register(shard.clock().now(), deadline, Waker::noop().clone());
        armed.expect("not refused").expect("not due")
    }

    #[test]
    fn what_its_task_finds_before_the_turner_comes_to_it_is_counted_by_how_it_ended() {
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
        // It has a waker of another shard already.
        let mut wakers = vec![Waker::noop().clone()];
        assert_eq!(shard.turn(due, due, 1, &mut wakers), ShardTurn::More);
        assert!(shard.finish(late, due).is_ok());
        assert_eq!(counts(), (2, 0, 2));
        // One step is for the emptied bucket, the other for the first of the two timers.
        assert_eq!(shard.end(2, &mut wakers), (2, Progress::More));
        assert!(shard.finish(pending, far).is_err());
        assert_eq!(counts(), (2, 2, 0));
    }
}
