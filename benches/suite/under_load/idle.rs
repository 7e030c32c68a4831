//! A process that waits for one timer an hour away, and one that has very many wheels.

use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;

use super::rivals::multi_thread;
use super::sides::Side;
use super::targets::{row_of_values, targets};
use super::timers::{Timers, TokioTime};
use crate::support::{Findings, Scale, Unit, context_switches, number, target, threads};

const WORKERS: usize = 2;
const HOUR: Duration = Duration::from_secs(3600);
/// What arming sets going is over then.
const SETTLED: Duration = Duration::from_millis(200);
const WATCHED: Duration = Duration::from_secs(5);
const STORM: usize = 100_000;
/// Over which the deadlines of the storm are spread.
const SPREAD: Duration = Duration::from_secs(1);
/// What is put off for long after a storm is done then.
const CALM: Duration = Duration::from_secs(60);
const WHEELS: usize = 200;
/// The targets.
const SWITCHES: u64 = 2;
const THREADS: usize = 1;
/// In each wheel a timer fires while another waits, so that all that a wheel needs is there.
const SHORT: Duration = Duration::from_millis(10);

/// Context switches of the process.
struct Idle {
    fresh: u64,
    after_storm: u64,
}

pub(super) fn run(scale: Scale) -> Findings {
    // One after the other, so that each is alone in the process.
    eprintln!("one timer an hour away, ours");
    let runtime = multi_thread(WORKERS).build().expect("a runtime");
    let ours = watch(scale, Side::ours(runtime, TimingWheel::builder()));
    eprintln!("one timer an hour away, tokio's");
    let runtime = multi_thread(WORKERS).build().expect("a runtime");
    let rival = watch(scale, Side { timers: TokioTime, runtime });
    eprintln!("threads of {WHEELS} wheels");
    let of_wheels = threads_of_wheels(scale.of(WHEELS));

    let switches = |when: &str, value: fn(&Idle) -> u64| {
        let what = format!("switches in {} s, one far timer, {when}", WATCHED.as_secs());
        let shown = [&ours, &rival].map(|idle| Unit::Count.show(value(idle) as f64));
        row_of_values(what, &shown, target(format!("at most {SWITCHES}"), value(&ours) <= SWITCHES))
    };
    let threads = of_wheels.map_or_else(|| "unknown".into(), |count| Unit::Count.show(count as f64));
    let target_of_threads =
        of_wheels.map(|count| target(format!("at most {THREADS}"), count <= THREADS)).unwrap_or_default();
    let what = format!("threads more with {WHEELS} wheels than with none");
    targets()
        .row(switches("fresh", |idle| idle.fresh))
        .row(switches("after a storm", |idle| idle.after_storm))
        .row(row_of_values(what, &[threads], target_of_threads))
        .note(format!(
            "One far timer: an hour away, in a runtime of {WORKERS} workers that is alone in its process. One of the \
             switches is of the thread that watches. The storm is {} timers in a second, {} s before.",
            number(STORM as f64),
            CALM.as_secs()
        ))
        .into()
}

fn watch<T: Timers>(scale: Scale, side: Side<T>) -> Idle {
    let before = side.timers.stats();
    let timers = side.timers.clone();
    let far = side.runtime.spawn(async move { timers.sleep(HOUR).await });
    thread::sleep(scale.length(SETTLED));
    let fresh = switches(scale);

    let count = scale.of(STORM);
    let storm: Vec<_> = (0..count)
        .map(|_| {
            let timers = side.timers.clone();
            let delay = SPREAD.mul_f64(fastrand::f64());
            side.runtime.spawn(async move { timers.sleep(delay).await })
        })
        .collect();
    side.runtime.block_on(async {
        for timer in storm {
            timer.await.expect("the task does not panic");
        }
    });
    thread::sleep(scale.length(CALM));
    let after_storm = switches(scale);

    assert!(!far.is_finished(), "it is not due before an hour");
    side.assert_armed(before, 1 + count as u64);
    Idle { fresh, after_storm }
}

fn switches(scale: Scale) -> u64 {
    let before = context_switches();
    thread::sleep(scale.length(WATCHED));
    context_switches() - before
}

/// How many threads the process has more with them.
fn threads_of_wheels(count: usize) -> Option<usize> {
    let runtime = multi_thread(WORKERS).build().expect("a runtime");
    let before = threads()?;
    let wheels: Vec<TimingWheel> = runtime.block_on(async {
        let wheels: Vec<_> = (0..count).map(|_| TimingWheel::new()).collect();
        for wheel in &wheels {
            tokio::spawn(wheel.sleep(HOUR));
            wheel.sleep(SHORT).await;
        }
        wheels
    });
    for stats in wheels.iter().map(TimingWheel::stats) {
        assert_eq!((stats.fired, stats.pending), (1, 1), "each wheel has had a timer, and waits for another");
    }
    Some(threads()? - before)
}
