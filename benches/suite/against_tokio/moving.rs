//! Moving a deadline, later and earlier.

use std::pin::{Pin, pin};
use std::task::Context;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::rig::{FAR, Rig, assert_pending};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, compare, time};

/// What a timer is moved by, away from a first delay.
#[derive(Clone, Copy)]
struct Moves {
    delay: fn(u64) -> Duration,
    /// How many times one timer is moved.
    steps: usize,
    /// How many timers are.
    timers: usize,
    /// The delay of one more timer, due before all of them.
    before: Option<Duration>,
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    // So many deadlines fit into a core's own cache.
    let later = Moves {
        delay: |step| FAR + Duration::from_millis(step),
        steps: scale.of(20_000),
        timers: 25,
        before: None,
    };
    let by_ticks = Moves {
        delay: |step| Duration::from_secs(10_000) - Duration::from_millis(step),
        before: Some(FAR),
        ..later
    };
    // From four seconds on, a slot holds 64 ms at either side.
    let by_slots = Moves {
        delay: |step| Duration::from_millis(4_000 - 64 * step),
        steps: 45,
        timers: scale.of(200),
        before: Some(Duration::from_secs(1)),
    };
    let all = [
        ("reset to later", later, 0.8),
        ("reset to earlier, by 1 ms", by_ticks, 0.4),
        ("reset to earlier, to another slot", by_slots, 0.4),
    ];
    all.into_iter()
        .fold(targets(), |table, (name, moves, target)| {
            table.row(row(&moved(scale, &rig, name, moves), Some(target)))
        })
        .row(row(
            &moved_at_rest(scale, "reset to earlier, the earliest of all", by_slots),
            Some(0.4),
        ))
        .note(
            "Reset to earlier: by 1 ms from 10,000 s on, where the slot mostly stays the same, or to another slot by 64 ms \
             from 4 s on, 45 times. The earliest of all: the only timer of a runtime that was made for it and is at rest, \
             so that who waits for it has to be woken. Ours is woken once for the 45, which takes as long as hundreds of \
             moves where its processor sleeps; then not again until it has looked.",
        )
        .into()
}

/// As [`moved`], without one that is due before, in a runtime of its own for each timer: one that expects an earlier
/// time need not be woken.
fn moved_at_rest(scale: Scale, name: &'static str, moves: Moves) -> Comparison {
    let timers = moves.timers;
    let moves = Moves { timers: 1, before: None, ..moves };
    let sum = |one: &dyn Fn(&Rig) -> Duration| (0..timers).map(|_| one(&Rig::new(1))).sum();
    compare(
        scale,
        name,
        moves.steps * timers,
        || {
            sum(&|rig| {
                let make = |deadline| rig.wheel.sleep_until(deadline);
                let before = rig.wheel.stats();
                let taken = rig.within(|cx| move_all(rig, moves, cx, None, make, timingwheel::Sleep::reset));
                rig.assert_armed(before, 1);
                taken
            })
        },
        || {
            sum(&|rig| {
                rig.within(|cx| move_all(rig, moves, cx, None, sleep_until, tokio::time::Sleep::reset))
            })
        },
    )
}

fn moved(scale: Scale, rig: &Rig, name: &'static str, moves: Moves) -> Comparison {
    let before = rig.wheel.stats();
    let comparison = compare(
        scale,
        name,
        moves.steps * moves.timers,
        || {
            rig.within(|cx| {
                let make = |deadline| rig.wheel.sleep_until(deadline);
                let first = moves.before.map(|delay| rig.wheel.sleep(delay));
                move_all(rig, moves, cx, first, make, timingwheel::Sleep::reset)
            })
        },
        || {
            rig.within(|cx| {
                let first = moves.before.map(sleep);
                move_all(rig, moves, cx, first, sleep_until, tokio::time::Sleep::reset)
            })
        },
    );
    rig.assert_armed(before, moves.timers);
    comparison
}

/// The time of the moves alone: the deadlines are known before.
fn move_all<S: Future>(
    rig: &Rig,
    moves: Moves,
    cx: &mut Context<'_>,
    first: Option<S>,
    make: impl Fn(Instant) -> S,
    reset: impl Fn(Pin<&mut S>, Instant),
) -> Duration {
    let mut first = pin!(first);
    let mut sum = Duration::ZERO;
    // All of them are kept: one that was dropped would leave its place, which is an earlier one, to the next.
    let mut kept = Vec::new();
    let mut deadlines = Vec::with_capacity(moves.steps);
    if let Some(first) = first.as_mut().as_pin_mut() {
        assert_pending(first, cx);
    }
    for _ in 0..moves.timers {
        let start = Instant::now();
        deadlines.clear();
        deadlines.extend((1..=moves.steps as u64).map(|step| start + (moves.delay)(step)));
        let mut timer = Box::pin(make(start + (moves.delay)(0)));
        assert_pending(timer.as_mut(), cx);
        settle(rig);
        sum += time(|| deadlines.iter().for_each(|&deadline| reset(timer.as_mut(), deadline)));
        assert_pending(timer.as_mut(), cx);
        kept.push(timer);
    }
    if let Some(first) = first.as_pin_mut() {
        assert_pending(first, cx);
    }
    sum
}

/// Lets the worker look for the next timer, and go to sleep until then.
fn settle(rig: &Rig) {
    const ENOUGH: Duration = Duration::from_micros(200);
    drop(rig.runtime.spawn(async {}));
    thread::sleep(ENOUGH);
}
