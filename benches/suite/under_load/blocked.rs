//! Tasks that wait for timers while another task, whose timer has just fired, blocks its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::sides::{Load, Side, Sides};
use super::targets::{row_of_values, targets};
use super::timers::Timers;
use crate::support::{Findings, Scale, Unit, median, target};

const WORKERS: usize = 4;
const OTHERS: usize = 4;
const DELAY: Duration = Duration::from_millis(10);
const BLOCKED: Duration = Duration::from_millis(1_500);
const BLOCKED_IN_TEST: Duration = Duration::from_millis(50);
/// Timers that the blocking task waits for before: at least so many, and at random some more.
const BEFORE: usize = 3;
const REPETITIONS: usize = 10;
/// The target, in nanoseconds.
const LIMIT: f64 = 10e6;

struct Blocked {
    length: Duration,
}

pub(super) fn run(scale: Scale) -> Findings {
    let length = if scale.is_test() { BLOCKED_IN_TEST } else { BLOCKED };
    let count = if scale.is_test() { 1 } else { REPETITIONS };
    eprintln!("a worker that is blocked");
    let found = Sides::new(WORKERS).rounds(count, &Blocked { length });
    let by_side = |value: fn(Vec<f64>) -> f64| -> Vec<f64> {
        let sides = 0..found[0].len();
        sides.map(|side| value(found.iter().map(|sides| sides[side]).collect())).collect()
    };
    let middle = by_side(median);
    let worst = by_side(|late| late.into_iter().fold(0.0, f64::max));
    let missed = by_side(|late| late.into_iter().filter(|late| *late >= LIMIT).count() as f64);
    let limit = Unit::Nanos.show(LIMIT);
    let row = |what: String, unit: Unit, values: &[f64], target: String| {
        let shown: Vec<String> = values.iter().map(|value| unit.show(*value)).collect();
        row_of_values(what, &shown, target)
    };
    let late = |what: &str, values: &[f64]| {
        let what = format!("worst lateness beside a blocked worker, {what} of {count}");
        row(what, Unit::Nanos, values, target(format!("below {limit}"), values[0] < LIMIT))
    };
    let what = format!("the same, how many of {count} were not below {limit}");
    targets()
        .row(late("median", &middle))
        .row(late("worst", &worst))
        .row(row(what, Unit::Count, &missed, target(0, missed[0] == 0.0)))
        .note(format!(
            "Beside a blocked worker: on {WORKERS} workers {OTHERS} tasks sleep for 10 ms in a loop. Another one's \
             timer fires, and that task blocks its worker for {} s.",
            BLOCKED.as_secs_f64()
        ))
        .into()
}

impl Load for Blocked {
    /// The worst lateness of a timer of the others, in nanoseconds.
    type Found = f64;

    fn run<T: Timers>(&self, side: &Side<T>) -> (f64, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..OTHERS)
            .map(|_| {
                let (timers, stop) = (side.timers.clone(), stop.clone());
                side.runtime.spawn(async move {
                    let mut all = vec![timers.sleep(DELAY.mul_f64(fastrand::f64())).await];
                    while !stop.load(Ordering::Relaxed) {
                        all.push(timers.sleep(DELAY).await);
                    }
                    all
                })
            })
            .collect();
        let (timers, length) = (side.timers.clone(), self.length);
        let before = BEFORE + fastrand::usize(..OTHERS);
        let blocking = side.runtime.spawn(async move {
            for _ in 0..before {
                timers.sleep(DELAY).await;
            }
            let begun = Instant::now();
            thread::sleep(length);
            (begun, Instant::now())
        });
        side.runtime.block_on(async {
            let (begun, ended) = blocking.await.expect("the task does not panic");
            stop.store(true, Ordering::Relaxed);
            let mut fired = Vec::new();
            for other in others {
                fired.extend(other.await.expect("the task does not panic"));
            }
            // One that was due just before may be held up by it too.
            let during =
                fired.iter().filter(|fired| fired.deadline + fired.late >= begun && fired.deadline < ended);
            let worst = during.map(|fired| fired.late).max().expect("timers were due meanwhile");
            (worst.as_nanos() as f64, (fired.len() + before) as u64)
        })
    }
}
