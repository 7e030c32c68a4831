//! Random scripts on both queues: the same items come, at the same times.

use proptest::prelude::*;

use super::on_tokio_util::script as theirs;
use super::on_wheel::script as ours;

/// The same on both.
macro_rules! ops {
    ($ops:expr, $side:ident) => {
        $ops.iter().map(|&op| $side::Op::from(op)).collect::<Vec<_>>()
    };
}

impl From<ours::Op> for theirs::Op {
    fn from(op: ours::Op) -> Self {
        match op {
            ours::Op::Insert(delay) => Self::Insert(delay),
            ours::Op::Remove(place) => Self::Remove(place),
            ours::Op::Reset(place, delay) => Self::Reset(place, delay),
            ours::Op::Block(millis) => Self::Block(millis),
            ours::Op::Sleep(millis) => Self::Sleep(millis),
            ours::Op::Take(millis) => Self::Take(millis),
            ours::Op::Clear => Self::Clear,
            ours::Op::Compact => Self::Compact,
        }
    }
}

fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0..1_000_u64, 2 => 0..100_000_u64, 1 => 0..100_000_000_u64]
}

fn op() -> impl Strategy<Value = ours::Op> {
    use ours::Op;
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

fn on_a_paused_clock<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_same_items_come_at_the_same_times(ops in prop::collection::vec(op(), 1..60)) {
        let ours = on_a_paused_clock(ours::log(&ops));
        let theirs = on_a_paused_clock(theirs::log(&ops!(ops, theirs)));
        prop_assert_eq!(ours, theirs);
    }
}

/// If all scripts gave the same empty log, all comparisons would hold.
#[test]
fn a_script_does_what_it_says() {
    use ours::Op::{Block, Compact, Insert, Remove, Reset, Take};
    let ops =
        [Insert(0), Insert(0), Insert(1_000), Remove(0), Reset(1, 300), Take(600), Compact, Block(5_000)];
    let log = on_a_paused_clock(ours::log(&ops));
    assert_eq!(log, [(516, 1), (5_600, 2)]);
}
