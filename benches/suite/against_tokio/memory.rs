//! The memory of pending timers.

use std::sync::Arc;
use std::time::Duration;

use super::rig::{Rig, Wakes, arm_all};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, Unit, resident_bytes};

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let timers = scale.of(1_000_000);
    let delay = || Duration::from_millis(fastrand::u64(1_000_000..2_000_000));
    let delays: Vec<Duration> = (0..timers).map(|_| delay()).collect();
    let wakes = Arc::<Wakes>::default();

    let sizes = (size_of::<timingwheel::Sleep>() as f64, size_of::<tokio::time::Sleep>() as f64);
    let mut table = targets()
        .row(row(&Comparison::of("the future alone, `size_of`", Unit::Bytes, &[sizes]), None))
        .note(
            "Bytes for each pending timer: the growth of the process's resident memory. Each side's futures are in one \
             vector, ours by value, tokio's pinned in boxes as they have to be. The first are kept while the second are \
             made, so both grow into fresh memory.",
        );
    let before = resident_bytes();
    let ours = arm_all(&delays, &wakes, |delay| rig.wheel.sleep(delay));
    let between = resident_bytes();
    let rival = arm_all(&delays, &wakes, |delay| Box::pin(tokio::time::sleep(delay)));
    let after = resident_bytes();
    assert_eq!((rig.wheel.pending(), ours.len(), rival.len()), (timers, timers, timers));
    if let (Some(before), Some(between), Some(after)) = (before, between, after) {
        let each = |growth: f64| growth / timers as f64;
        let pair = (each(between - before), each(after - between));
        let name = "bytes for each pending timer, future included";
        table = table.row(row(&Comparison::of(name, Unit::Bytes, &[pair]), Some(0.66)));
    } else {
        table = table.note("This kernel does not tell a process's memory as Linux does.");
    }
    table.into()
}
