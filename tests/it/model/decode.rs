//! Decodes operations from bytes.

use super::ALL;
use super::ops::{Move, Op, Shape, Span};
use crate::bytes::Bytes;

/// A wheel, and what is to be done to it. A small change of the bytes is a small change of that, as a rule.
pub(crate) fn decode(bytes: &[u8]) -> (Shape, Vec<Op>) {
    let mut bytes = Bytes::new(bytes);
    let shape = shape(&mut bytes);
    let mut ops = Vec::new();
    while !bytes.is_empty() {
        ops.push(op(&mut bytes));
    }
    (shape, ops)
}

fn shape(bytes: &mut Bytes<'_>) -> Shape {
    let tick = match bytes.below(8) {
        0 => 1,
        1 => 4,
        2 => 10,
        3 => 1_000_000,
        4 => bytes.number(1) + 1,
        5 => bytes.number(4) + 1,
        6 => bytes.number(8).max(1),
        _ => 86_400_000_000_000,
    };
    let slots = match bytes.below(8) {
        0 => 2,
        1 => 3,
        2 => 20,
        3 => 64,
        4 => 256,
        _ => bytes.number(1) + 2,
    };
    Shape { tick, slots }
}

/// The first of the bytes that stand for what may be late. Few of them, as all others mean what they meant before.
const TOLERANT: u8 = 240;

fn op(bytes: &mut Bytes<'_>) -> Op {
    let byte = bytes.byte();
    if byte >= TOLERANT {
        return Op::InsertTolerant(span(bytes), 1 + bytes.below(4), bytes.below(3), span(bytes));
    }
    match byte % 16 {
        0 | 1 => Op::Insert(span(bytes), 1 + bytes.below(4), bytes.below(3)),
        2 => Op::Insert(span(bytes), 1 + bytes.below(64), bytes.below(64)),
        3 => Op::Spread(1 + bytes.below(64)),
        4 => Op::Cancel(which(bytes)),
        5 => Op::CancelAll,
        6 | 7 => Op::Move(which(bytes), (0..=bytes.below(3)).map(|_| change(bytes)).collect()),
        8 => Op::UseStale(which(bytes)),
        9 => Op::ClockOn(span(bytes)),
        10 => Op::ClockBack(span(bytes)),
        11 => Op::LookAtExpiration,
        12 => Op::Advance(batch(bytes)),
        13 => Op::AdvanceUntilDone(batch(bytes)),
        14 => Op::AdvanceToExpiration,
        _ => Op::AdvanceToJustBeforeExpiration,
    }
}

fn span(bytes: &mut Bytes<'_>) -> Span {
    let off = |bytes: &mut Bytes<'_>| i64::try_from(bytes.below(3)).expect("a byte") - 1;
    let level = |bytes: &mut Bytes<'_>| u32::from(bytes.byte() % 6);
    match bytes.below(8) {
        0 => Span::Nothing,
        1 => Span::InsideTick(bytes.number(1)),
        2 => Span::InsideTick(bytes.number(8)),
        3 | 4 => Span::Slots(level(bytes), 1 + bytes.below(8), off(bytes)),
        5 => Span::Border(level(bytes), 1 + bytes.below(8), off(bytes)),
        6 => Span::Border(u32::from(bytes.byte() % 64), 1 + bytes.below(4), off(bytes)),
        _ => match bytes.below(4) {
            0 => Span::Centuries(1 + bytes.below(4)),
            1 => Span::End(bytes.number(1)),
            _ => Span::Slots(0, bytes.number(2), off(bytes)),
        },
    }
}

fn change(bytes: &mut Bytes<'_>) -> Move {
    let byte = bytes.byte();
    if byte >= TOLERANT {
        return Move::Tolerant(span(bytes), span(bytes));
    }
    match byte % 4 {
        0 => Move::FromNow(span(bytes)),
        1 => Move::Later(span(bytes)),
        2 => Move::Earlier(bytes.byte()),
        _ => Move::Past(span(bytes)),
    }
}

fn which(bytes: &mut Bytes<'_>) -> usize {
    usize::from(bytes.byte())
}

fn batch(bytes: &mut Bytes<'_>) -> usize {
    match bytes.byte() {
        255 => ALL,
        small => usize::from(small % 80) + 1,
    }
}
