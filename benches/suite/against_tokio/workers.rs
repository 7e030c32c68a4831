//! Timeouts in tasks, on 1, 2, ... workers.

use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::rig::{FAR, Rig};
use super::{row, targets};
use crate::support::{
    Axis, Better, Chart, Comparison, Findings, Scale, Table, Unit, median, number, rounds, target, time,
};

const TASKS: usize = 64;
/// The sides, in this order.
const SIDES: [&str; 3] = ["timingwheel", "tokio", "no timers"];
const OURS: usize = 0;
const TOKIO: usize = 1;
const NONE: usize = 2;
/// Of which the targets speak.
const FROM: usize = 1;
const TO: usize = 2;
const GROWTH: f64 = 1.3;

pub(super) fn run(scale: Scale) -> Findings {
    let each = scale.of(8_000);
    let cores = available_parallelism().map_or(TO, usize::from);
    let workers: Vec<usize> = std::iter::successors(Some(FROM), |workers| Some(workers * 2))
        .take_while(|&n| n <= cores.max(TO))
        .collect();
    let rigs: Vec<Rig> = workers.iter().map(|&workers| Rig::new(workers)).collect();

    // All in one round, so that each of its ratios is of runs at nearly the same time.
    let mut sides: Vec<Box<dyn FnMut() -> Duration + '_>> = Vec::new();
    for Rig { runtime, wheel } in &rigs {
        sides.push(Box::new(move || {
            in_tasks(runtime, || {
                let wheel = wheel.clone();
                async move {
                    for _ in 0..each {
                        wheel.timeout(FAR, yield_now()).await.expect("time enough");
                    }
                }
            })
        }));
        sides.push(Box::new(move || {
            in_tasks(runtime, || async move {
                for _ in 0..each {
                    tokio::time::timeout(FAR, yield_now()).await.expect("time enough");
                }
            })
        }));
        sides.push(Box::new(move || {
            in_tasks(runtime, || async move {
                for _ in 0..each {
                    yield_now().await;
                }
            })
        }));
    }
    eprintln!("{} tasks on 1 to {} workers", TASKS, workers[workers.len() - 1]);
    let mut sides: Vec<&mut dyn FnMut() -> Duration> =
        sides.iter_mut().map(|side| &mut **side as &mut dyn FnMut() -> Duration).collect();
    // The first does not count: in it pools get warm.
    let found = rounds(scale.rounds() + 1, &mut sides).split_off(1);
    for rig in &rigs {
        let made = (each * TASKS * (scale.rounds() + 1)) as u64;
        assert_eq!(rig.wheel.stats().armed, made, "each timeout reached the wheel");
    }

    // Operations in a second; nanoseconds for each.
    let place = |workers_place: usize, side: usize| workers_place * SIDES.len() + side;
    let rate = |round: &[Duration], place: usize| (each * TASKS) as f64 / round[place].as_secs_f64();
    let typical = |place: usize| median(found.iter().map(|round| rate(round, place)));
    let at = |wanted: usize| workers.iter().position(|&n| n == wanted).expect("both are measured");
    let (from, to) = (at(FROM), at(TO));
    let pairs: Vec<_> = found
        .iter()
        .map(|round| {
            let nanos = |side| 1e9 / rate(round, place(to, side));
            (nanos(OURS), nanos(TOKIO))
        })
        .collect();
    let cost = Comparison::of("`timeout(30 s, yield)` in 64 tasks, 2 workers", Unit::Nanos, &pairs);
    let growth = |side| {
        median(found.iter().map(|round| rate(round, place(to, side)) / rate(round, place(from, side))))
    };

    let mut rates = Table::new("Timeouts in tasks", ["workers"].into_iter().chain(SIDES)).note(format!(
        "From {FROM} to {TO} workers the loop without timers grows {} times.",
        number(growth(NONE))
    ));
    for (workers_place, workers) in workers.iter().enumerate() {
        let rates_of = (0..SIDES.len()).map(|side| Unit::PerSecond.show(typical(place(workers_place, side))));
        rates = rates.row([workers.to_string()].into_iter().chain(rates_of));
    }
    let mut chart = Chart::new(
        "workers",
        "timeout(30 s, yield) in 64 tasks",
        Better::More,
        Axis::linear("worker threads"),
        Axis::linear("million operations per second"),
    );
    for (side, name) in SIDES.into_iter().enumerate() {
        let points =
            workers.iter().enumerate().map(|(number, &n)| (n as f64, typical(place(number, side)) / 1e6));
        chart = chart.series(name, points.collect());
    }
    let growths = [
        "64 tasks, operations per second from 1 to 2 workers".into(),
        format!("{} times", number(growth(OURS))),
        format!("{} times", number(growth(TOKIO))),
        String::new(),
        target(format!("at least {GROWTH} times"), growth(OURS) >= GROWTH),
    ];
    let targets = targets().row(row(&cost, Some(0.5))).row(growths);
    Findings { tables: vec![targets, rates], charts: vec![chart] }
}

fn in_tasks<F: Future<Output = ()> + Send + 'static>(runtime: &Runtime, task: impl Fn() -> F) -> Duration {
    time(|| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task())).collect();
            for task in tasks {
                task.await.expect("the task does not panic");
            }
        });
    })
}
