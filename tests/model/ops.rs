//! What is done to a wheel and to the map, at random.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::ALL;

/// 36,525 days, in nanoseconds.
const CENTURY: u64 = 3_155_760_000_000_000_000;

/// A distance on the time line, in the measures of a wheel.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Nothing,
    InsideTick(u64),
    /// So many slots of a level, and a nanosecond more or less.
    Slots(u32, u64, i64),
    /// To the beginning of a slot of a level, or a nanosecond before or after it.
    Border(u32, u64, i64),
    Centuries(u64),
    /// To so many nanoseconds before the end of time.
    End(u64),
}

impl Span {
    /// The time at this distance from `base`, as far as there is time.
    pub(super) fn after(&self, base: u64, tick: u64, slots: u64) -> u64 {
        let width = |level| tick.saturating_mul(slots.saturating_pow(level));
        match *self {
            Span::Nothing => base,
            Span::InsideTick(nanos) => base.saturating_add(nanos % tick),
            Span::Slots(level, count, off) => {
                base.saturating_add(width(level).saturating_mul(count)).saturating_add_signed(off)
            }
            Span::Border(level, count, off) => (base / width(level))
                .saturating_add(count)
                .saturating_mul(width(level))
                .saturating_add_signed(off),
            Span::Centuries(count) => base.saturating_add(CENTURY.saturating_mul(count)),
            Span::End(nanos) => u64::MAX - nanos,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Move {
    FromNow(Span),
    Later(Span),
    /// To a part in 256 of the time that is left.
    Earlier(u8),
    Past(Span),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// So many entries, so many nanoseconds apart.
    Insert(Span, u64, u64),
    Cancel(Index),
    CancelAll,
    /// One entry, once or repeatedly.
    Move(Index, Vec<Move>),
    UseStale(Index),
    ClockOn(Span),
    ClockBack(Span),
    /// One batch; others come between it and the next.
    Advance(usize),
    AdvanceUntilDone(usize),
    AdvanceToExpiration,
    AdvanceToJustBeforeExpiration,
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
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let batch = || prop_oneof![4 => 1..6_usize, 1 => Just(ALL)];
    prop_oneof![
        12 => (span(1), 1..6_u64, 0..3_u64).prop_map(|(span, count, apart)| Op::Insert(span, count, apart)),
        4 => any::<Index>().prop_map(Op::Cancel),
        1 => Just(Op::CancelAll),
        10 => (any::<Index>(), vec(change(), 1..4)).prop_map(|(which, changes)| Op::Move(which, changes)),
        2 => any::<Index>().prop_map(Op::UseStale),
        8 => span(8).prop_map(Op::ClockOn),
        1 => span(8).prop_map(Op::ClockBack),
        8 => batch().prop_map(Op::Advance),
        3 => batch().prop_map(Op::AdvanceUntilDone),
        3 => Just(Op::AdvanceToExpiration),
        3 => Just(Op::AdvanceToJustBeforeExpiration),
    ]
}

/// Few entries within a few ticks of some nanoseconds, so that they share buckets and are moved within one, out of it and
/// back.
pub(crate) fn nearby_op() -> impl Strategy<Value = Op> {
    let nearby = |nanos: i64| (0..=nanos).prop_map(|nanos| Span::Slots(0, 0, nanos));
    let moves = vec(nearby(24).prop_map(Move::FromNow), 1..5);
    prop_oneof![
        4 => (nearby(24), 1..4_u64, 0..3_u64).prop_map(|(span, count, apart)| Op::Insert(span, count, apart)),
        12 => (any::<Index>(), moves).prop_map(|(which, moves)| Op::Move(which, moves)),
        1 => any::<Index>().prop_map(Op::Cancel),
        3 => nearby(6).prop_map(Op::ClockOn),
        3 => (1..4_usize).prop_map(Op::Advance),
        1 => Just(Op::AdvanceToExpiration),
        1 => Just(Op::AdvanceToJustBeforeExpiration),
    ]
}

/// The length of a tick and the number of slots.
pub(crate) fn shape() -> impl Strategy<Value = (u64, u64)> {
    (select(&[1, 10, 1_000_000][..]), select(&[2, 3, 20, 64, 256][..]))
}
