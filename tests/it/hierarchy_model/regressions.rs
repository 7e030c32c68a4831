//! The shortest operations that the core once did wrong.

use crate::model::Model;
use crate::model::ops::Move::{Earlier, FromNow, Past};
use crate::model::ops::Span::{Border, InsideTick, Nothing, Slots};
use crate::model::ops::{Op, Shape};

fn run(tick: u64, slots: u64, ops: &[Op]) {
    Model::run(Shape { tick, slots }, ops);
}

#[test]
fn an_entry_moved_within_the_clocks_tick_and_again_is_handed_out() {
    let to_now = || Op::Move(0, vec![FromNow(Nothing)]);
    run(1, 2, &[Op::Insert(Border(0, 1, 1), 1, 0), to_now(), to_now(), Op::Advance(2)]);
}

#[test]
fn an_entry_moved_into_the_past_at_the_origin_is_handed_out() {
    run(1, 2, &[Op::Insert(Slots(0, 1, 0), 1, 0), Op::Move(0, vec![Past(Nothing)]), Op::AdvanceUntilDone(1)]);
}

#[test]
fn a_stale_key_does_not_find_what_stands_where_its_entry_was_taken_from_the_front() {
    let two = || Op::Insert(Nothing, 2, 2);
    run(1, 2, &[two(), two(), Op::ClockOn(Slots(0, 3, 0)), Op::Advance(1), Op::UseStale(0)]);
}

#[test]
fn a_bucket_does_not_wait_for_an_entry_that_was_moved_out_of_its_tick_and_back() {
    let ops = [
        Op::Insert(InsideTick(592_793_443_523_000_001), 2, 0),
        Op::Insert(Border(1, 1, 0), 1, 0),
        Op::AdvanceToJustBeforeExpiration,
        Op::Move(0, vec![FromNow(Slots(0, 1, 1)), Earlier(1)]),
        Op::Move(1, vec![FromNow(Nothing)]),
    ];
    run(1_000_000, 3, &ops);
}
