//! Three years of uptime.
//!
//! The clock goes on in odd steps, of nanoseconds to weeks, as a server's would that is busy, idle or suspended. A few
//! hundred entries are pending at any time, of delays from less than a tick to decades; most are moved or cancelled
//! before they are due. Then all is handed out, decades later.

use fastrand::Rng;

use crate::model::Model;
use crate::model::ops::{Move, Op, Shape, Span};

const YEAR: u64 = 31_557_600_000_000_000;

/// Any number of nanoseconds up to `most`, as likely of each number of binary digits.
fn any_length(random: &mut Rng, most: u64) -> Span {
    let bits = random.u32(1..=most.ilog2() + 1);
    Span::Slots(0, 0, i64::try_from(random.u64(0..1 << bits).min(most)).expect("decades fit"))
}

fn op(random: &mut Rng, pending: usize) -> Op {
    let which = random.usize(..);
    match random.u32(0..16) {
        0..=4 if pending < 300 => {
            Op::Insert(any_length(random, 20 * YEAR), random.u64(1..5), random.u64(0..3))
        }
        0..=7 => Op::Cancel(which),
        8..=10 => Op::Move(which, vec![Move::FromNow(any_length(random, YEAR))]),
        11 => Op::Move(which, vec![Move::Earlier(random.u8(..))]),
        12 => Op::Advance(random.usize(1..100)),
        13 => Op::AdvanceToJustBeforeExpiration,
        14 => Op::AdvanceToExpiration,
        _ => Op::LookAtExpiration,
    }
}

fn three_years(shape: Shape, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut model = Model::new(shape);
    while model.now < 3 * YEAR {
        for _ in 0..random.u32(0..8) {
            let op = op(&mut random, model.wheel.len());
            model.apply(&op);
        }
        let step = any_length(&mut random, YEAR / 52);
        model.apply(&Op::ClockOn(step));
        if random.u32(0..50) == 0 {
            let back = any_length(&mut random, YEAR / 365);
            model.apply(&Op::ClockBack(back));
        }
        model.apply(&Op::AdvanceUntilDone(random.usize(1..1_000)));
    }
    model.advance_to_the_last_expiration();
}

#[test]
fn after_three_years_in_odd_steps_no_timer_was_lost_early_or_late() {
    let shapes = [(1_000_000, 64), (100_000, 256), (1_000, 2), (7_654_321, 13), (86_400_000_000_000, 3)];
    for ((tick, slots), seed) in shapes.into_iter().zip(1..) {
        three_years(Shape { tick, slots }, seed);
    }
}
