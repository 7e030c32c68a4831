//! Making a timer, polling it, moving it, dropping it, and its memory.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::{row, targets};
use crate::sides::{FAR, Rig, Timers, Tokio, Wakes, arm_all, assert_pending};
use crate::support::{Comparison, Findings, Scale, Unit, compare, resident_bytes, time};

pub(super) fn arming(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    targets()
        .row(row(&arm_and_cancel(scale, &rig), Some(0.65)))
        .row(row(&replace_among_many(scale, &rig), Some(0.85)))
        .into()
}

fn arm_and_cancel(scale: Scale, rig: &Rig) -> Comparison {
    fn work(rig: &Rig, timers: &impl Timers, operations: usize) -> Duration {
        rig.time(|cx| (0..operations).for_each(|_| assert_pending(pin!(timers.sleep(FAR)), cx)))
    }
    let operations = scale.of(500_000);
    let before = rig.wheel.stats();
    let (ours, tokio) = (|| work(rig, &rig.wheel, operations), || work(rig, &Tokio, operations));
    let comparison = compare(scale, "create, first poll, drop; one thread", operations, ours, tokio);
    rig.assert_armed(before, operations);
    comparison
}

fn far_delay() -> Duration {
    Duration::from_millis(fastrand::u64(1_000_000..2_000_000))
}

fn replace_among_many(scale: Scale, rig: &Rig) -> Comparison {
    fn pending<T: Timers>(rig: &Rig, timers: &T, delays: &[Duration]) -> Vec<T::Kept> {
        let _within = rig.runtime.enter();
        arm_all::<T>(delays.iter().map(|&delay| timers.sleep(delay)), &Arc::<Wakes>::default())
    }
    fn work<T: Timers>(rig: &Rig, timers: &T, all: &mut [T::Kept], operations: usize) -> Duration {
        rig.time(|cx| {
            for _ in 0..operations {
                let place = &mut all[fastrand::usize(..all.len())];
                T::replace(place, timers.sleep(far_delay()));
                assert_pending(pin!(place), cx);
            }
        })
    }
    let (timers, operations) = (scale.of(1_000_000), scale.of(300_000));
    let delays: Vec<Duration> = (0..timers).map(|_| far_delay()).collect();
    let before = rig.wheel.stats();
    let (mut ours, mut rival) = (pending(rig, &rig.wheel, &delays), pending(rig, &Tokio, &delays));
    let comparison = compare(
        scale,
        "replace a random timer among a million",
        operations,
        || work(rig, &rig.wheel, &mut ours, operations),
        || work(rig, &Tokio, &mut rival, operations),
    );
    rig.assert_armed(before, timers + operations);
    assert_eq!(rig.wheel.pending(), timers);
    comparison
}

pub(super) fn polling(scale: Scale) -> Findings {
    fn again(rig: &Rig, timers: &impl Timers, operations: usize) -> Duration {
        rig.time(|cx| {
            let mut timer = pin!(timers.sleep(FAR));
            (0..operations).for_each(|_| assert_pending(timer.as_mut(), cx));
        })
    }
    fn ready_at_once(rig: &Rig, timers: &impl Timers, operations: usize) -> Duration {
        rig.time(|cx| {
            for _ in 0..operations {
                assert!(pin!(timers.timeout(FAR, ready(()))).poll(cx).is_ready());
            }
        })
    }
    let rig = Rig::new(1);
    let operations = scale.of(1_000_000);
    let before = rig.wheel.stats();
    let (ours, tokio) = (|| again(&rig, &rig.wheel, operations), || again(&rig, &Tokio, operations));
    let polled = compare(scale, "poll a pending sleep again", operations, ours, tokio);
    rig.assert_armed(before, 1);
    let ours = || ready_at_once(&rig, &rig.wheel, operations);
    let tokio = || ready_at_once(&rig, &Tokio, operations);
    let ready = compare(scale, "a timeout round a ready future", operations, ours, tokio);
    targets().row(row(&polled, Some(0.6))).row(row(&ready, Some(0.7))).into()
}

/// Away from a first delay.
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

pub(super) fn moving(scale: Scale) -> Findings {
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
    let table = all.into_iter().fold(targets(), |table, (name, moves, target)| {
        let before = rig.wheel.stats();
        let (ours, tokio) = (|| move_all(&rig, &rig.wheel, moves), || move_all(&rig, &Tokio, moves));
        let moved = compare(scale, name, moves.steps * moves.timers, ours, tokio);
        rig.assert_armed(before, moves.timers);
        table.row(row(&moved, Some(target)))
    });
    let name = "reset to earlier, the earliest of all";
    let (timers, steps) = (by_slots.timers, by_slots.steps);
    // In a runtime of its own for each timer: one that expects an earlier time need not be woken.
    let alone = Moves { timers: 1, before: None, ..by_slots };
    let sum = |one: &dyn Fn(&Rig) -> Duration| (0..timers).map(|_| one(&Rig::new(1))).sum();
    let ours = || {
        sum(&|rig| {
            let before = rig.wheel.stats();
            let taken = move_all(rig, &rig.wheel, alone);
            rig.assert_armed(before, 1);
            taken
        })
    };
    let at_rest = compare(scale, name, steps * timers, ours, || sum(&|rig| move_all(rig, &Tokio, alone)));
    table
        .row(row(&at_rest, Some(0.4)))
        .note(
            "Reset to earlier: by 1 ms from 10,000 s on, where the slot mostly stays the same, or to another slot by 64 ms \
             from 4 s on, 45 times. The earliest of all: the only timer of a runtime that was made for it and is at rest, \
             so that who waits for it has to be woken. Ours is woken once for the 45, which takes as long as hundreds of \
             moves where its processor sleeps; then not again until it has looked.",
        )
        .into()
}

/// The time of the moves alone: the deadlines are known before.
fn move_all<T: Timers>(rig: &Rig, timers: &T, moves: Moves) -> Duration {
    let work = |cx: &mut Context<'_>| {
        let mut first = pin!(moves.before.map(|delay| timers.sleep(delay)));
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
            let mut timer = Box::pin(timers.sleep_until(start + (moves.delay)(0)));
            assert_pending(timer.as_mut(), cx);
            settle(rig);
            sum += time(|| deadlines.iter().for_each(|&deadline| T::reset(timer.as_mut(), deadline)));
            assert_pending(timer.as_mut(), cx);
            kept.push(timer);
        }
        if let Some(first) = first.as_pin_mut() {
            assert_pending(first, cx);
        }
        sum
    };
    rig.within(work)
}

/// Lets the worker look for the next timer, and go to sleep until then.
fn settle(rig: &Rig) {
    const ENOUGH: Duration = Duration::from_micros(200);
    drop(rig.runtime.spawn(async {}));
    thread::sleep(ENOUGH);
}

pub(super) fn memory(scale: Scale) -> Findings {
    fn pending<T: Timers>(timers: &T, delays: &[Duration]) -> (Vec<T::Kept>, Option<f64>) {
        let sleeps = delays.iter().map(|&delay| timers.sleep(delay));
        (arm_all::<T>(sleeps, &Arc::<Wakes>::default()), resident_bytes())
    }
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let timers = scale.of(1_000_000);
    let delays: Vec<Duration> = (0..timers).map(|_| far_delay()).collect();
    let sizes = (size_of::<timingwheel::Sleep>() as f64, size_of::<tokio::time::Sleep>() as f64);
    let table = targets()
        .row(row(&Comparison::of("the future alone, `size_of`", Unit::Bytes, &[sizes]), None))
        .note(
            "Bytes for each pending timer: the growth of the process's resident memory. Each side's futures are in one \
             vector, ours by value, tokio's pinned in boxes as they have to be. The first are kept while the second are \
             made, so both grow into fresh memory.",
        );
    let before = resident_bytes();
    let (ours, between) = pending(&rig.wheel, &delays);
    let (rival, after) = pending(&Tokio, &delays);
    assert_eq!((rig.wheel.pending(), ours.len(), rival.len()), (timers, timers, timers));
    let (Some(before), Some(between), Some(after)) = (before, between, after) else {
        return table.note("This kernel does not tell a process's memory as Linux does.").into();
    };
    let pair = ((between - before) / timers as f64, (after - between) / timers as f64);
    let name = "bytes for each pending timer, future included";
    table.row(row(&Comparison::of(name, Unit::Bytes, &[pair]), Some(0.66))).into()
}
