//! Tasks that sleep among tasks that compute, and give way after each 20 µs.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::sides::{Load, Side, Sides};
use super::targets::{row, targets};
use super::timers::{Fired, Timers};
use crate::support::{Findings, Scale, Unit, number};

const WORKERS: usize = 2;
const BUSY: [usize; 4] = [50, 200, 1_000, 5_000];
const BUSY_ON_ONE_THREAD: usize = 1_000;
const SLEEPERS: usize = 300;
/// Of each task that computes, before it gives way.
const COMPUTE: Duration = Duration::from_micros(20);
/// Until all tasks are at it.
const LEAD: Duration = Duration::from_millis(200);
const WATCHED: Duration = Duration::from_millis(800);
const WATCHED_IN_TEST: Duration = Duration::from_millis(100);
/// Enough for a median that one disturbance does not move.
const ROUNDS: usize = 5;
const TARGET: f64 = 1.05;

struct Busy {
    scale: Scale,
    tasks: usize,
}

/// Of all timers of a round, in nanoseconds.
#[derive(Clone, Copy)]
struct Lateness {
    p50: f64,
    p99: f64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let mut table = targets();
    let sides = Sides::new(WORKERS);
    for tasks in BUSY {
        let found = measure(scale, tasks, &sides);
        let name = |quantile| format!("lateness {quantile} beside {} busy tasks", number(tasks as f64));
        table = table.row(of(name("p50"), &found, |lateness| lateness.p50)).row(of(
            name("p99"),
            &found,
            |lateness| lateness.p99,
        ));
    }
    let found = measure(scale, BUSY_ON_ONE_THREAD, &Sides::current_thread());
    let name = |quantile| format!("lateness {quantile} beside 1,000 busy tasks, one thread");
    table
        .row(of(name("p50"), &found, |lateness| lateness.p50))
        .note(format!(
            "Busy tasks: on {WORKERS} workers, or one thread, tasks compute for 20 µs and give way, in a loop. Beside \
             them {SLEEPERS} tasks sleep for 15 to 35 ms, in a loop."
        ))
        .into()
}

fn measure(scale: Scale, tasks: usize, sides: &Sides) -> Vec<Vec<Lateness>> {
    eprintln!("{tasks} busy tasks");
    let rounds = if scale.is_test() { 1 } else { ROUNDS };
    sides.rounds(rounds, &Busy { scale, tasks: scale.of(tasks) })
}

fn of(name: String, found: &[Vec<Lateness>], value: fn(&Lateness) -> f64) -> Vec<String> {
    let values: Vec<Vec<f64>> = found.iter().map(|sides| sides.iter().map(value).collect()).collect();
    row(name, Unit::Nanos, &values, Some(TARGET))
}

impl Load for Busy {
    type Found = Lateness;

    fn run<T: Timers>(&self, side: &Side<T>) -> (Lateness, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..self.tasks).map(|_| side.runtime.spawn(compute(stop.clone()))).collect();
        let from = Instant::now() + self.scale.length(LEAD);
        let until = from + if self.scale.is_test() { WATCHED_IN_TEST } else { WATCHED };
        let sleepers: Vec<_> = (0..self.scale.of(SLEEPERS))
            .map(|_| side.runtime.spawn(sleep_again_and_again(side.timers.clone(), from, until)))
            .collect();
        let mut fired = Vec::new();
        side.runtime.block_on(async {
            for sleeper in sleepers {
                fired.extend(sleeper.await.expect("the task does not panic"));
            }
            // Not before: the last sleepers too are among busy tasks.
            stop.store(true, Ordering::Relaxed);
            for task in busy {
                task.await.expect("the task does not panic");
            }
        });
        let watched = fired.iter().filter(|fired| fired.deadline >= from);
        let mut late: Vec<Duration> = watched.map(|fired| fired.late).collect();
        late.sort_unstable();
        let at = |percent: usize| late[(late.len() - 1) * percent / 100].as_nanos() as f64;
        (Lateness { p50: at(50), p99: at(99) }, fired.len() as u64)
    }
}

async fn compute(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        while begun.elapsed() < COMPUTE {
            spin_loop();
        }
        yield_now().await;
    }
}

/// At least one that fires has its deadline after `from`.
async fn sleep_again_and_again(timers: impl Timers, from: Instant, until: Instant) -> Vec<Fired> {
    let mut all = Vec::new();
    loop {
        let fired = timers.sleep(Duration::from_micros(fastrand::u64(15_000..35_000))).await;
        all.push(fired);
        if fired.deadline >= from && Instant::now() >= until {
            return all;
        }
    }
}
