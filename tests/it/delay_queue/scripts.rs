//! Random scripts on both queues: the same items come, at the same times.

use proptest::prelude::*;

use super::on_tokio_util::script as theirs;
use super::on_wheel::script as ours;
use crate::paused;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// With a delay that makes the deadline one of its own.
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    /// Is busy, and lets nothing go on.
    Block(u64),
    /// Is busy, and lets the runtime go on.
    Sleep(u64),
    /// Takes what comes in so many milliseconds.
    Take(u64),
    Clear,
    Compact,
}

fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..1_000_u64, 2 => 0..100_000_u64, 1 => 0..100_000_000_u64]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => millis().prop_map(Op::Insert),
        3 => (0..20_usize).prop_map(Op::Remove),
        5 => (0..20_usize, millis()).prop_map(|(place, delay)| Op::Reset(place, delay)),
        2 => millis().prop_map(Op::Block),
        2 => millis().prop_map(Op::Sleep),
        5 => millis().prop_map(Op::Take),
        1 => Just(Op::Clear),
        1 => Just(Op::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn the_same_items_come_at_the_same_times(ops in prop::collection::vec(op(), 1..60)) {
        let ours = paused().block_on(ours::log(&ops));
        let theirs = paused().block_on(theirs::log(&ops));
        prop_assert_eq!(ours, theirs);
    }
}
