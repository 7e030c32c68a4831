//! Tasks that sleep in a loop, so that few or many timers fire in a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::sides::{Load, Side, Sides};
use super::spent::{Count, Spent, rounds_of, spent};
use super::targets::{row, targets};
use super::timers::Timers;
use crate::support::{Findings, Scale, Table, Unit};

const WORKERS: usize = 2;
/// How many milliseconds a task sleeps, on average.
const AVERAGE: usize = 25;
const SHORT_TICK: Duration = Duration::from_micros(100);
/// With which the wheel is about as late as tokio's timers, also where few fire.
const LONG_TICK: Duration = Duration::from_millis(2);
/// With which a busy wheel is turned once a millisecond.
const HALF_TICK: Duration = Duration::from_micros(500);

/// How many timers fire in a millisecond, and the target for the CPU time of each.
const RATES: [(usize, f64); 3] = [(4, 1.0), (25, 0.9), (250, 0.75)];
const SWITCHES: f64 = 1.2;
/// At the lowest rate with a short tick.
const SHORT_TICK_CPU: f64 = 2.0;

struct Loops {
    scale: Scale,
    tasks: usize,
}

/// What a timer took.
struct Found {
    spent: Spent,
    /// On average, in nanoseconds.
    lateness: f64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let mut table = targets();
    let sides = Sides::new(WORKERS);
    for (rate, target) in RATES {
        let what = format!("{rate} fire in a ms");
        table = rows(table, scale, &sides, rate, &what, [Some(target), Some(SWITCHES)]);
    }
    let sides = Sides::with_tick(WORKERS, LONG_TICK);
    table = rows(table, scale, &sides, 4, "4 fire in a ms, tick 2 ms", [Some(1.0), Some(SWITCHES)]);
    let sides = Sides::with_tick(WORKERS, HALF_TICK);
    for rate in [25, 250] {
        table = rows(table, scale, &sides, rate, &format!("{rate} fire in a ms, tick 500 µs"), [None, None]);
    }
    let sides = Sides::with_tick(WORKERS, SHORT_TICK);
    table = rows(table, scale, &sides, 4, "4 fire in a ms, tick 100 µs", [Some(SHORT_TICK_CPU), None]);
    table
        .note(format!(
            "Timers that fire in a ms: tasks on {WORKERS} workers sleep for 15 to 35 ms in a loop. CPU: for each timer. \
             Switches: context switches of all threads for 1,000 timers, whether they gave up their core or lost it. Lateness: until the task runs, on \
             average. With a tick of 2 ms the wheel is about as late as tokio's timers, and is turned half as often; with one \
             of 500 µs it is turned once a millisecond where it is busy."
        ))
        .into()
}

fn rows(
    table: Table,
    scale: Scale,
    sides: &Sides,
    rate: usize,
    what: &str,
    targets: [Option<f64>; 2],
) -> Table {
    eprintln!("{what}");
    let found = sides.rounds(rounds_of(scale), &Loops { scale, tasks: scale.of(rate * AVERAGE) });
    let of = |value: fn(&Found) -> f64| -> Vec<Vec<f64>> {
        found.iter().map(|sides| sides.iter().map(value).collect()).collect()
    };
    let [cpu, switches] = targets;
    table
        .row(row(format!("CPU, {what}"), Unit::Nanos, &of(|found| found.spent.cpu), cpu))
        .row(row(format!("switches, {what}"), Unit::Count, &of(|found| found.spent.switches), switches))
        .row(row(format!("lateness, {what}"), Unit::Nanos, &of(|found| found.lateness), None))
}

impl Load for Loops {
    type Found = Found;

    fn run<T: Timers>(&self, side: &Side<T>) -> (Found, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let fired = Arc::<Count>::default();
        let tasks: Vec<_> = (0..self.tasks)
            .map(|_| {
                let (timers, stop, fired) = (side.timers.clone(), stop.clone(), fired.clone());
                side.runtime.spawn(async move {
                    let mut late = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        late += timers.sleep(Duration::from_micros(fastrand::u64(15_000..35_000))).await.late;
                        fired.add();
                    }
                    late
                })
            })
            .collect();
        let spent = spent(self.scale, &fired);
        stop.store(true, Ordering::Relaxed);
        let mut late = Duration::ZERO;
        side.runtime.block_on(async {
            for task in tasks {
                late += task.await.expect("the task does not panic");
            }
        });
        let lateness = late.as_nanos() as f64 / fired.get() as f64;
        (Found { spent, lateness }, fired.get())
    }
}
