//! Moving a deadline, later and earlier.

use std::pin::{Pin, pin};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::rig::{FAR, Rig, assert_pending};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, compare};

/// Further than all steps of a run that brings a deadline nearer.
const VERY_FAR: Duration = Duration::from_secs(10_000);

/// A timer that is moved to one deadline after the other, and made anew for each `steps`.
#[derive(Clone, Copy)]
struct Moves {
    steps: usize,
    delay: fn(u64) -> Duration,
    /// Another timer, due before all of them.
    before: Option<Duration>,
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    let all = scale.of(500_000);
    let later = Moves { steps: all, delay: |step| FAR + Duration::from_millis(step), before: None };
    let earlier = Moves { steps: all, delay: |step| VERY_FAR - Duration::from_millis(step), before: None };
    let second = Moves { before: Some(FAR), ..earlier };
    // From four seconds on, a slot holds some 64 ms at either side.
    let slots = Moves {
        steps: 60,
        delay: |step| Duration::from_millis(4_000 - 64 * step),
        before: Some(Duration::from_millis(100)),
    };
    targets()
        .row(row(&moved(scale, &rig, "reset to later", later), Some(0.8)))
        .row(row(&moved(scale, &rig, "reset to earlier, the only timer", earlier), Some(0.4)))
        .row(row(&moved(scale, &rig, "reset to earlier, an earlier one pending", second), Some(0.4)))
        .row(row(&moved(scale, &rig, "reset to earlier, to another slot each time", slots), None))
        .note(
            "Reset to earlier: one timer steps by 1 ms, from 10,000 s on. As the only timer it is the earliest at each \
             step, and tokio interrupts its driver's sleep for that.",
        )
        .note("To another slot each time: steps of 64 ms from 4 s on, a new timer for each 60; its making counts too.")
        .into()
}

fn moved(scale: Scale, rig: &Rig, name: &'static str, moves: Moves) -> Comparison {
    let operations = scale.of(500_000).next_multiple_of(moves.steps);
    let before = rig.wheel.stats();
    let comparison = compare(
        scale,
        name,
        operations,
        || {
            rig.time(|cx| {
                let first = moves.before.map(|delay| rig.wheel.sleep(delay));
                let make = |deadline| rig.wheel.sleep_until(deadline);
                move_all(operations, moves, cx, first, make, timingwheel::Sleep::reset);
            })
        },
        || {
            rig.time(|cx| {
                let first = moves.before.map(sleep);
                move_all(operations, moves, cx, first, sleep_until, tokio::time::Sleep::reset);
            })
        },
    );
    rig.assert_armed(before, operations / moves.steps);
    comparison
}

fn move_all<S: Future>(
    operations: usize,
    moves: Moves,
    cx: &mut Context<'_>,
    first: Option<S>,
    make: impl Fn(Instant) -> S,
    reset: impl Fn(Pin<&mut S>, Instant),
) {
    let mut first = pin!(first);
    if let Some(first) = first.as_mut().as_pin_mut() {
        assert_pending(first, cx);
    }
    for _ in 0..operations / moves.steps {
        let start = Instant::now();
        let mut timer = pin!(make(start + (moves.delay)(0)));
        assert_pending(timer.as_mut(), cx);
        for step in 1..=moves.steps as u64 {
            reset(timer.as_mut(), start + (moves.delay)(step));
        }
        assert_pending(timer, cx);
    }
}
