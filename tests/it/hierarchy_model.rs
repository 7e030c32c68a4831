//! The core against a naive ordered map: random operations on both, and after each what must hold.
//!
//! An entry is *due in* the tick that its deadline lies in (a deadline on a border lies in the tick that ends
//! there), or, if that was over when the deadline was set, in the tick that the clock was in. The map holds
//! entries by the tick they are due in. *Now* is the time told, or the wheel's clock if that is later. An entry with a
//! tolerance has the deadline that `round_up_within` makes of its own.
//!
//! 1. Never early: an entry is handed out when its deadline is now or before.
//! 2. Late by less than a tick: when `advance` is done, no entry is left whose tick has ended.
//! 3. Each entry is handed out or cancelled exactly once, and `len` counts those that were not.
//! 4. Entries are handed out in the order of the ticks they are due in, over the whole life of a wheel.
//! 5. `next_expiration` is there exactly if something is pending, at most the end of the earliest tick that
//!    an entry is due in. `advance` has something to do at that time and nothing before it.
//! 6. Advancing from one `next_expiration` to the next hands everything out, in at most a step for each level
//!    and entry and one more for each entry that was moved later. It is never late.
//! 7. A batch is never exceeded; with `Progress::More` something is left to do, and it was full but for what had gone.
//! 8. A stale key finds nothing and harms nothing; any other key finds its own entry.
//! 9. No pending entry has a deadline up to `handed_out_through`, unless it was moved into the past. If none
//!    is pending when `advance` is done, it is the wheel's clock.
//! 10. There are as many levels as an entry inserted needs, and no more than some deadline needed when it was
//!     set. Each setting of a deadline moves an entry at most once for each level.
//! 11. `capacity` is at most a page of 1024 for each pending entry and one more, and never more than the
//!     pages that the most entries ever pending at a time fill.
//! 12. An insertion moves the clock to now or not at all; that of an idle wheel is then less than a tick behind.
//! 13. A lone entry is handed out exactly at its deadline by advancing to each `next_expiration`.

mod random;
mod regressions;

use std::ops::ControlFlow;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::hold::hold;
use crate::model::Model;
use crate::model::decode::decode;
use crate::model::ops::Shape;
use random::{change, nearby_ops, ops, shape, span};

#[test]
fn a_wheel_does_what_an_ordered_map_does_to_within_a_tick() {
    hold(file!(), (shape(), ops()), |(shape, ops)| Model::run(shape, &ops));
}

#[test]
fn entries_moved_to_and_fro_over_a_few_ticks_do_as_in_an_ordered_map() {
    // So short that few different deadlines lie in a tick.
    let shape = (2..5_u64).prop_map(|slots| Shape { tick: 4, slots });
    hold(file!(), (shape, nearby_ops(1..60)), |(shape, ops)| Model::run(shape, &ops));
}

#[test]
fn a_wheel_in_the_last_ticks_of_time_does_as_an_ordered_map() {
    let before_the_end = prop_oneof![0..100_u64, (0..8_u32).prop_map(|bits| 4 << bits)];
    let shape = (1..12_u64, 2..5_u64).prop_map(|(tick, slots)| Shape { tick, slots });
    hold(file!(), (shape, before_the_end, nearby_ops(1..60)), |(shape, before, ops)| {
        let mut model = Model::new(shape);
        model.now = u64::MAX - before;
        ops.iter().for_each(|op| model.apply(op));
        model.advance_to_the_last_expiration();
    });
}

#[test]
fn whatever_bytes_say_is_done_as_in_an_ordered_map() {
    let script = vec(any::<u8>(), 0..300).prop_map(|bytes| decode(&bytes));
    hold(file!(), script, |(shape, ops)| Model::run(shape, &ops));
}

#[test]
fn a_lone_entry_is_handed_out_exactly_at_its_deadline() {
    let moves = vec((0..3_u8, change()), 0..6);
    hold(file!(), (shape(), span(4), span(1), moves), |(shape, start, delay, moves)| {
        let mut model = Model::new(shape);
        model.now = model.after(0, &start);
        model.insert(model.after(model.now, &delay));
        let mut moves = moves.iter();
        while !model.wheel.is_empty() {
            // Moves come after some alarms, which can have moved the entry to a finer level.
            if let Some((alarms, change)) = moves.next() {
                (0..*alarms).for_each(|_| _ = model.advance_to_expiration());
                if !model.wheel.is_empty() {
                    model.change(0, change);
                }
            } else {
                let clock = model.clock();
                let at = model.advance_to_expiration();
                if model.wheel.is_empty() {
                    let deadline = model.made[0].deadline.max(clock);
                    assert_eq!(at.map_continue(|at| at.max(clock)), ControlFlow::Continue(deadline));
                }
            }
        }
    });
}
