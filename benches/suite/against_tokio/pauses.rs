//! The longest that arming and cancelling a timer takes while very many others move down the levels and fire.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::rig::{FAR, Rig, Wakes, arm_all, assert_pending, take_all};
use super::{RATIO, row, targets};
use crate::support::{Comparison, Findings, Scale, Unit, rounds};

/// Less than a slot of the second level at either side, 64 ms.
const SPREAD: Duration = Duration::from_millis(50);
/// Enough for a median of what a scheduler disturbs.
const ROUNDS: usize = 7;
/// How long the loop runs alone, to see what the machine's own pauses are.
const ALONE: Duration = Duration::from_millis(200);

/// The longest of a loop's operations, in nanoseconds.
struct Longest {
    alone: f64,
    beside: f64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let timers = scale.of(1_000_000);
    let before = rig.wheel.stats();
    eprintln!("arming while a million fire");
    let count = if scale.is_test() { 1 } else { ROUNDS };
    let found = rounds(
        count,
        &mut [
            &mut || {
                longest(
                    scale,
                    timers,
                    |deadline| rig.wheel.sleep_until(deadline),
                    |delay| rig.wheel.sleep(delay),
                )
            },
            &mut || longest(scale, timers, |deadline| Box::pin(sleep_until(deadline)), sleep),
        ],
    );
    let stats = rig.wheel.stats();
    assert_eq!(stats.fired - before.fired, (timers * count) as u64);
    assert!(stats.cascaded >= stats.fired, "all that fired came down from a higher level");
    let of = |name, part: fn(&Longest) -> f64| {
        let pairs: Vec<_> = found.iter().map(|sides| (part(&sides[0]), part(&sides[1]))).collect();
        Comparison::of(name, Unit::Nanos, &pairs)
    };
    // Its ratio would be one of two accidents.
    let mut alone = row(&of("worst arm with nothing else to do, for 200 ms", |longest| longest.alone), None);
    alone[RATIO].clear();
    targets()
        .row(row(&of("worst arm while a million timers move down and fire", |longest| longest.beside), Some(0.3)))
        .row(alone)
        .note(format!(
            "Worst arm: one thread arms and cancels in a loop while the only worker moves down and fires a million timers \
             that are due within 50 ms; the median of the worst of {ROUNDS} rounds."
        ))
        .into()
}

fn longest<S: Future + Unpin, L: Future>(
    scale: Scale,
    timers: usize,
    make: impl Fn(Instant) -> S,
    arm: impl Fn(Duration) -> L,
) -> Longest {
    let lead = if scale.is_test() { Duration::from_millis(200) } else { Duration::from_secs(2) };
    let mut cx = Context::from_waker(Waker::noop());
    let mut longest_until = |done: &dyn Fn() -> bool| {
        let mut longest = Duration::ZERO;
        while !done() {
            let start = std::time::Instant::now();
            assert_pending(pin!(arm(FAR)), &mut cx);
            longest = longest.max(start.elapsed());
        }
        longest.as_nanos() as f64
    };
    let alone_until = Instant::now() + scale.length(ALONE);
    let alone = longest_until(&|| Instant::now() >= alone_until);

    let first = Instant::now() + lead;
    let deadlines: Vec<Instant> = (0..timers).map(|_| first + SPREAD.mul_f64(fastrand::f64())).collect();
    let wakes = Arc::<Wakes>::default();
    let pending = arm_all(&deadlines, &wakes, make);
    assert!(Instant::now() < first, "arming took longer than the time until the first deadline");
    let beside = longest_until(&|| wakes.count() == timers);
    take_all(pending);
    Longest { alone, beside }
}
