//! Timers of the public API against an oracle of their deadlines, on tokio's paused clock. Sleeps and timeouts in tasks of
//! their own are made, moved, answered and dropped. The clock jumps or goes from timer to timer. The wheel is full, and
//! ends. The fuzzer `api` does the same.
//!
//! 1. Never early: a timer that has elapsed had its deadline at that time or before.
//! 2. Never lost: when a tick, and what a paused clock adds, have passed since a deadline, its task has
//!    been woken and found it elapsed. While the clock goes from timer to timer, none is later than that.
//! 3. A timer whose deadline has passed when it is made or moved elapses at once, without the clock.
//! 4. `pending` and `stats` count exactly the timers that have not elapsed. Each armed timer is pending, fired or
//!    cancelled.
//! 5. A timer is refused exactly when as many are pending as the bound says, and keeps its place when it is moved.
//! 6. `shutdown` returns how many were pending, and each of them elapses if its deadline had come, or tells of the end.
//! 7. A timeout whose future is ready returns that.
//! 8. With the last timer and the handle gone, no task is left.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::deadlines::{self, ops::decode};
use crate::hold::hold;

#[test]
fn whatever_is_done_to_timers_they_elapse_as_their_deadlines_say() {
    let script = vec(any::<u8>(), 0..300).prop_map(|bytes| decode(&bytes));
    hold(file!(), script, |(shape, ops)| deadlines::run(shape, &ops));
}
