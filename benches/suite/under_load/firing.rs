//! Tasks that sleep in a loop, so that few or many timers fire in a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::sides::{Load, Side, Sides};
use super::spent::{Count, Spent, rounds_of, spent};
use super::targets::{row, targets};
use super::timers::Timers;
use crate::support::{Findings, Scale, Unit};

const WORKERS: usize = 2;
/// How many milliseconds a task sleeps, on average.
const AVERAGE: usize = 25;
const SHORT_TICK: Duration = Duration::from_micros(100);

/// How many timers fire in a millisecond, and the target for the CPU time of each.
const RATES: [(usize, f64); 3] = [(4, 1.0), (25, 0.9), (250, 0.75)];
const SWITCHES: f64 = 1.2;
/// At the lowest rate with a short tick.
const SHORT_TICK_CPU: f64 = 2.0;

struct Loops {
    scale: Scale,
    tasks: usize,
}

pub(super) fn run(scale: Scale) -> Findings {
    let mut table = targets();
    let sides = Sides::new(WORKERS);
    for (rate, target) in RATES {
        let what = format!("{rate} fire in a ms");
        let [cpu, switches] = rows(scale, &sides, rate, &what, [Some(target), Some(SWITCHES)]);
        table = table.row(cpu).row(switches);
    }
    let sides = Sides::with_tick(WORKERS, SHORT_TICK);
    let what = "4 fire in a ms, tick 100 µs";
    let [cpu, switches] = rows(scale, &sides, 4, what, [Some(SHORT_TICK_CPU), None]);
    table
        .row(cpu)
        .row(switches)
        .note(format!(
            "Timers that fire in a ms: tasks on {WORKERS} workers sleep for 15 to 35 ms in a loop. Switches: context \
             switches of all threads, whether they gave up their core or lost it."
        ))
        .into()
}

fn rows(scale: Scale, sides: &Sides, rate: usize, what: &str, targets: [Option<f64>; 2]) -> [Vec<String>; 2] {
    eprintln!("{what}");
    let found = sides.rounds(rounds_of(scale), &Loops { scale, tasks: scale.of(rate * AVERAGE) });
    let of = |value: fn(&Spent) -> f64| -> Vec<Vec<f64>> {
        found.iter().map(|sides| sides.iter().map(value).collect()).collect()
    };
    let [cpu, switches] = targets;
    [
        row(format!("CPU for a timer, {what}"), Unit::Nanos, &of(|spent| spent.cpu), cpu),
        row(format!("switches for 1,000 timers, {what}"), Unit::Count, &of(|spent| spent.switches), switches),
    ]
}

impl Load for Loops {
    type Found = Spent;

    fn run<T: Timers>(&self, side: &Side<T>) -> (Spent, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let fired = Arc::<Count>::default();
        let tasks: Vec<_> = (0..self.tasks)
            .map(|_| {
                let (timers, stop, fired) = (side.timers.clone(), stop.clone(), fired.clone());
                side.runtime.spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        timers.sleep(Duration::from_micros(fastrand::u64(15_000..35_000))).await;
                        fired.add();
                    }
                })
            })
            .collect();
        let spent = spent(self.scale, &fired);
        stop.store(true, Ordering::Relaxed);
        side.runtime.block_on(async {
            for task in tasks {
                task.await.expect("the task does not panic");
            }
        });
        (spent, fired.get())
    }
}
