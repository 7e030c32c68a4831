//! A process that waits for one far timer.

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use super::rig::{Rig, assert_pending};
use super::targets;
use crate::support::{Findings, Scale, Unit, sleeps_of_other_threads, target};

const HOUR: Duration = Duration::from_secs(3600);
/// A share of the minute of which the target speaks.
const WATCHED: Duration = Duration::from_secs(6);
const WATCHED_IN_A_MINUTE: f64 = 10.0;
const TARGET: f64 = 10.0;
/// What arming sets going is over then.
const SETTLED: Duration = Duration::from_millis(200);

pub(super) fn run(scale: Scale) -> Findings {
    eprintln!("an hour, watched for {} s", WATCHED.as_secs());
    // One after the other, each with a runtime of its own, as all threads of the process are counted.
    let (ours, wakeups) = {
        let rig = Rig::new(2);
        let _within = rig.runtime.enter();
        let before = rig.wheel.stats();
        let watched = watch(scale, rig.wheel.sleep(HOUR), || rig.wheel.stats().turns);
        rig.assert_armed(before, 1);
        watched
    };
    let (rival, _) = {
        let rig = Rig::new(2);
        let _within = rig.runtime.enter();
        watch(scale, tokio::time::sleep(HOUR), || 0)
    };
    let per_minute = |count: f64| Unit::Count.show(count * WATCHED_IN_A_MINUTE);
    let shown = |sleeps: Option<f64>| sleeps.map_or_else(|| "unknown".into(), per_minute);
    let target = |count: f64| {
        let is_met = count * WATCHED_IN_A_MINUTE < TARGET;
        target(format!("fewer than {TARGET}"), is_met)
    };
    targets()
        .row([
            "wake-ups of the driver in a minute, one timer an hour away".into(),
            per_minute(wakeups as f64),
            String::new(),
            String::new(),
            target(wakeups as f64),
        ])
        .row([
            "wake-ups of all threads in a minute, one timer an hour away".into(),
            shown(ours),
            shown(rival),
            String::new(),
            ours.map(target).unwrap_or_default(),
        ])
        .note(
            "Wake-ups: ten times those of 6 s. Of all threads: their voluntary context switches, 2 workers.",
        )
        .into()
}

/// How often the other threads went to sleep while it was pending, and how often the driver was woken.
fn watch(scale: Scale, timer: impl Future, turns: impl Fn() -> u64) -> (Option<f64>, u64) {
    let mut timer = pin!(timer);
    let mut cx = Context::from_waker(Waker::noop());
    assert_pending(timer.as_mut(), &mut cx);
    thread::sleep(scale.length(SETTLED));
    let before = (sleeps_of_other_threads(), turns());
    thread::sleep(scale.length(WATCHED));
    let after = (sleeps_of_other_threads(), turns());
    assert_pending(timer, &mut cx);
    (after.0.zip(before.0).map(|(after, before)| after - before), after.1 - before.1)
}
