//! A turner's side of a shard: handing out the timers that are due.

use std::task::Waker;
use std::time::Duration;

use super::Shard;
use crate::platform::clock::stopwatch;
use crate::wheel::{Nanos, Progress};

/// A turn that is late by more than this is remembered: see [`Shard::late_turn`].
const LATE: Duration = Duration::from_millis(500);

/// What a turn left to do in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardTurn {
    /// More is due.
    More,
    /// There is nothing to do before this time.
    Until(Nanos),
    /// The shard has ended.
    Ended,
}

impl Shard {
    /// For a turner: before this time there is nothing to do here.
    pub(crate) fn next_turn(&self) -> Nanos {
        self.next_expiration().min(self.clear_by())
    }

    /// For a turner: when the first bucket begins.
    pub(crate) fn next_expiration(&self) -> Nanos {
        self.published.next_expiration()
    }

    /// For a turner: when the leftovers are to be cleared. `MAX` if there are none.
    pub(crate) fn clear_by(&self) -> Nanos {
        self.leftovers.clear_by()
    }

    /// When a turn last came so late that those whose timers it fired have waited for more than half a second. Zero if
    /// none has.
    pub(crate) fn late_turn(&self) -> Nanos {
        self.published.late_turn()
    }

    /// For a turner, whose turn is due since `due_since`: moves the hierarchy's clock to `now`, and adds the wakers
    /// of up to `batch` timers to `expired`.
    pub(crate) fn turn(
        &self,
        now: Nanos,
        due_since: Nanos,
        batch: usize,
        expired: &mut Vec<Waker>,
    ) -> ShardTurn {
        let expiration = self.next_expiration();
        let next = self.next_turn();
        if next > now {
            return if self.has_ended() { ShardTurn::Ended } else { ShardTurn::Until(next) };
        }
        let mut counters = self.counters().of_turns();
        let mut state = self.state.lock();
        let held_since = stopwatch();
        let left_wakers = self.clear_leftovers(&mut state);
        if state.ended {
            // Dropping a waker is users' code: no lock may be held.
            drop(state);
            drop(counters);
            drop(left_wakers);
            return ShardTurn::Ended;
        }
        let before = expired.len();
        // A timer that was registered after its deadline is not late for that reason. A timer that was registered in
        // time lies in one tick with the time at which the turn was due. So neither is later than the turn by more than
        // a tick.
        let most = now.before(due_since.to_duration()).after(self.resolution.tick());
        let mut record_lateness = counters.lateness.recorder(most.0);
        let progress = state.hierarchy.advance_and_tell(now, batch, |late_by, waker| {
            record_lateness(late_by);
            expired.push(waker);
        });
        drop(record_lateness);
        let fired = expired.len() - before;
        state.fired += fired as u64;
        let turn = match progress {
            Progress::More => ShardTurn::More,
            Progress::Done => {
                let next = state.hierarchy.next_expiration();
                self.published.set_next_expiration(next);
                ShardTurn::Until(next.unwrap_or(Nanos::MAX))
            }
        };
        if expiration.after(LATE) < now {
            self.published.set_late_turn(now);
        }
        self.published.set_reached(now);
        self.published.set_handed_out(state.hierarchy.handed_out_through());
        drop(state);
        counters.lock_holds.record(held_since.elapsed());
        drop(counters);
        drop(left_wakers);
        self.give_back(expired.len() - before);
        turn
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::engine::shard::test_shards::{Counts, lone_shard};

    /// The longest lateness, in microseconds, of timers with these deadlines that all fire in one turn.
    fn lateness(deadlines: &[u64], now: u64, due_since: u64) -> u64 {
        let at = |micros| Nanos::from_duration(Duration::from_micros(micros));
        let shard = lone_shard();
        for &deadline in deadlines {
            shard.register(Nanos::ZERO, at(deadline), Waker::noop().clone()).expect("not refused");
        }
        shard.turn(at(now), at(due_since), 100, &mut Vec::new());
        let lateness = shard.counters().of_turns().lateness.max().expect("they fired");
        u64::try_from(lateness.as_micros()).expect("microseconds")
    }

    #[test]
    fn a_timer_is_late_as_the_turner_is_and_by_the_tick_that_it_waited_for_others() {
        // Both lie in one tick of a millisecond.
        assert!((800..850).contains(&lateness(&[100, 900], 900, 900)));
        assert!((5_800..6_200).contains(&lateness(&[100, 900], 5_900, 900)));
        // It is registered after its deadline.
        assert!((1_000..1_063).contains(&lateness(&[100], 50_000, 50_000)));
        assert!((2_000..2_126).contains(&lateness(&[100], 50_000, 49_000)));
    }

    #[test]
    fn a_turn_that_comes_late_is_remembered() {
        let shard = lone_shard();
        let at = |millis| Nanos::from_duration(Duration::from_millis(millis));
        for (deadline, now, late_turn) in [(100, 600, 0), (700, 1_201, 1_201), (1_300, 1_301, 1_201)] {
            shard.register(Nanos::ZERO, at(deadline), Waker::noop().clone()).expect("not refused");
            shard.turn(at(now), at(now), 100, &mut Vec::new());
            assert_eq!(shard.late_turn(), at(late_turn));
        }
    }

    #[test]
    fn a_turn_that_finds_the_wheel_ended_drops_what_was_discarded_outside_the_lock() {
        let shard = Arc::new(lone_shard());
        let clock = *shard.clock();
        let far = clock.now().after(Duration::from_secs(60));
        let arm = |waker| shard.register(clock.now(), far, waker).expect("not refused").expect("not due");
        arm(Waker::noop().clone());
        let key = arm(Arc::new(Counts(Arc::downgrade(&shard))).into());
        // The end takes them out one by one. In between another thread discards the second.
        assert_eq!(shard.end(1, &mut Vec::new()), (2, Progress::More));
        shard.leave_in_batch(key);

        let (turned, turns) = channel();
        thread::spawn(move || {
            turned.send(shard.turn(Nanos(u64::MAX - 1), Nanos::ZERO, 100, &mut Vec::new()))
        });
        let turn = turns.recv_timeout(Duration::from_secs(30));
        assert_eq!(turn, Ok(ShardTurn::Ended), "it waits for itself");
    }
}
