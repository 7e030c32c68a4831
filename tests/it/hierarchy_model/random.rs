//! Random operations.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::ALL;
use crate::model::ops::{Move, Op, Shape, Span};

const DAY: u64 = 86_400_000_000_000;

/// A wheel as it may be made: the usual ones, and any.
pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let tick = prop_oneof![
        6 => select(&[1, 10, 1_000, 1_000_000, DAY, u64::MAX][..]),
        // As many of each number of digits.
        3 => (1..DAY, 0..46_u32).prop_map(|(tick, shift)| (tick >> shift).max(1)),
        1 => (1..=u64::MAX, 0..64_u32).prop_map(|(tick, shift)| (tick >> shift).max(1)),
    ];
    let slots = prop_oneof![
        12 => select(&[2, 3, 20, 64, 256][..]),
        6 => 2..130_u64,
        // These have so many buckets that to check them takes most of the time.
        1 => (2..=65_536_u64, 0..15_u32).prop_map(|(slots, shift)| (slots >> shift).max(2)),
    ];
    (tick, slots).prop_map(|(tick, slots)| Shape { tick, slots })
}

pub(crate) fn span(near: u32) -> impl Strategy<Value = Span> {
    let count = || prop_oneof![Just(1), 1..5_u64];
    prop_oneof![
        near => Just(Span::Nothing),
        4 * near => any::<u64>().prop_map(Span::InsideTick),
        6 * near => (0..4_u32, count(), -1..=1_i64).prop_map(|(level, n, off)| Span::Slots(level, n, off)),
        6 * near => (0..4_u32, count(), -1..=1_i64).prop_map(|(level, n, off)| Span::Border(level, n, off)),
        1 => (4..12_u32, count(), -1..=1_i64).prop_map(|(level, n, off)| Span::Border(level, n, off)),
        1 => (1..5_u64).prop_map(Span::Centuries),
        1 => (0..3_u64).prop_map(Span::End),
    ]
}

pub(crate) fn change() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => span(2).prop_map(Move::FromNow),
        3 => any::<u64>().prop_map(|nanos| Move::FromNow(Span::InsideTick(nanos))),
        6 => span(2).prop_map(Move::Later),
        3 => any::<u8>().prop_map(Move::Earlier),
        3 => span(4).prop_map(Move::Past),
        4 => (span(2), span(2)).prop_map(|(span, tolerance)| Move::Tolerant(span, tolerance)),
    ]
}

fn which() -> impl Strategy<Value = usize> {
    0..1_000_usize
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let batch = || prop_oneof![4 => 1..6_usize, 1 => 6..80_usize, 1 => Just(ALL)];
    let count = || prop_oneof![12 => 1..6_u64, 1 => 6..80_u64];
    let op = prop_oneof![
        12 => (span(1), count(), 0..3_u64).prop_map(|(span, count, apart)| Op::Insert(span, count, apart)),
        6 => (span(1), count(), 0..3_u64, span(2)).prop_map(|(span, count, apart, tolerance)| {
            Op::InsertTolerant(span, count, apart, tolerance)
        }),
        1 => (1..80_u64).prop_map(Op::Spread),
        4 => which().prop_map(Op::Cancel),
        1 => Just(Op::CancelAll),
        10 => (which(), vec(change(), 1..4)).prop_map(|(which, changes)| Op::Move(which, changes)),
        2 => which().prop_map(Op::UseStale),
        8 => span(8).prop_map(Op::ClockOn),
        2 => span(8).prop_map(Op::ClockBack),
        2 => Just(Op::LookAtExpiration),
        8 => batch().prop_map(Op::Advance),
        3 => batch().prop_map(Op::AdvanceUntilDone),
        3 => Just(Op::AdvanceToExpiration),
        3 => Just(Op::AdvanceToJustBeforeExpiration),
    ];
    vec(op, 1..120)
}

/// Few entries within a few ticks of some nanoseconds, so that they share buckets and are moved within one, out of it
/// and back, also into the past; and a clock that goes to and fro.
pub(crate) fn nearby_ops(length: Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let nearby = |nanos: i64| (0..=nanos).prop_map(|nanos| Span::Slots(0, 0, nanos));
    let change = prop_oneof![
        6 => nearby(24).prop_map(Move::FromNow),
        1 => nearby(24).prop_map(Move::Later),
        1 => nearby(12).prop_map(Move::Past),
        2 => (nearby(600), nearby(70)).prop_map(|(span, tolerance)| Move::Tolerant(span, tolerance)),
    ];
    let op = prop_oneof![
        4 => (nearby(24), 1..4_u64, 0..3_u64).prop_map(|(span, count, apart)| Op::Insert(span, count, apart)),
        2 => (nearby(600), 1..4_u64, 0..3_u64, nearby(70)).prop_map(|(span, count, apart, tolerance)| {
            Op::InsertTolerant(span, count, apart, tolerance)
        }),
        12 => (which(), vec(change, 1..5)).prop_map(|(which, moves)| Op::Move(which, moves)),
        1 => which().prop_map(Op::Cancel),
        3 => nearby(6).prop_map(Op::ClockOn),
        1 => nearby(12).prop_map(Op::ClockBack),
        3 => (1..4_usize).prop_map(Op::Advance),
        1 => Just(Op::LookAtExpiration),
        1 => Just(Op::AdvanceToExpiration),
        1 => Just(Op::AdvanceToJustBeforeExpiration),
    ];
    vec(op, length)
}
