//! How long after its deadline a task runs that waited for it.

use std::time::Duration;

use hdrhistogram::Histogram;
use timingwheel::TimingWheel;
use tokio::time::{Instant, sleep_until};

use super::rig::Rig;
use super::{row, targets};
use crate::support::{Axis, Better, Chart, Comparison, Duel, Findings, Scale, Table, Unit, cpu_time, rounds};

/// A light load: about four timers to a millisecond.
const TIMERS: usize = 12_000;
const SPREAD: Duration = Duration::from_secs(3);
const SHORT_TICK: Duration = Duration::from_micros(100);
/// After all are spawned.
const LEAD: Duration = Duration::from_millis(200);
/// The sides, in this order.
const SIDES: [&str; 3] = ["timingwheel, tick 1 ms", "timingwheel, tick 100 µs", "tokio"];
const OURS: usize = 0;
const OURS_SHORT: usize = 1;
const TOKIO: usize = 2;

struct Run {
    /// In nanoseconds.
    lateness: Histogram<u64>,
    cpu: Duration,
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(2);
    let short = rig.runtime.block_on(async { TimingWheel::builder().tick(SHORT_TICK).build() });
    let short = short.expect("a wheel with a short tick");
    let timers = scale.of(TIMERS);
    let offsets: Vec<Duration> =
        (0..timers).map(|_| LEAD + scale.length(SPREAD).mul_f64(fastrand::f64())).collect();
    eprintln!("lateness of {timers} timers");
    let on = |wheel: &TimingWheel| {
        let before = wheel.stats();
        let run = watch(&rig, &offsets, |deadline| {
            let wheel = wheel.clone();
            async move { wheel.sleep_until(deadline).await }
        });
        assert_eq!(wheel.stats().fired - before.fired, timers as u64, "each reached the wheel");
        run
    };
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || on(&rig.wheel), &mut || on(&short), &mut || watch(&rig, &offsets, sleep_until)],
    );

    let of = |name, ours: usize, quantile: f64| {
        let at = |run: &Run| run.lateness.value_at_quantile(quantile) as f64;
        let pairs: Vec<_> = found.iter().map(|sides| (at(&sides[ours]), at(&sides[TOKIO]))).collect();
        row(&Comparison::of(name, Unit::Nanos, &pairs), Some(if ours == OURS { 0.4 } else { 0.2 }))
    };
    let targets = targets()
        .row(of("lateness p50 at a tick of 1 ms", OURS, 0.5))
        .row(of("lateness p50 at a tick of 100 µs", OURS_SHORT, 0.5))
        .row(of("lateness p99 at a tick of 100 µs", OURS_SHORT, 0.99))
        .note("Lateness: tasks on 2 workers, about four timers to a millisecond; none was early.");
    let mut table = Table::new("Lateness", ["side", "p50", "p90", "p99", "p99.9", "most", "CPU for each"]);
    let mut chart = Chart::new(
        "lateness",
        "Lateness, about four timers to a millisecond",
        Better::Left,
        Axis::log("lateness in µs"),
        Axis::linear("% of timers within that"),
    );
    let cpu_of = |side: usize| {
        let cpu: Duration = found.iter().map(|sides| sides[side].cpu).sum();
        cpu.as_nanos() as f64 / (timers * found.len()) as f64
    };
    for (side, name) in SIDES.into_iter().enumerate() {
        let mut all = found[0][side].lateness.clone();
        found[1..].iter().for_each(|sides| all.add(&sides[side].lateness).expect("the same range"));
        let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0];
        let cells = quantiles.map(|quantile| Unit::Nanos.show(all.value_at_quantile(quantile) as f64));
        let cpu = Unit::Nanos.show(cpu_of(side));
        if side != TOKIO {
            let tick = name.trim_start_matches("timingwheel, ");
            let what = format!("CPU of a task that sleeps once, {tick}");
            table = table.duel(Duel::new(what, Unit::Nanos, cpu_of(side), (SIDES[TOKIO], cpu_of(TOKIO))));
        }
        table = table.row([name.to_owned()].into_iter().chain(cells).chain([cpu]));
        let points = (1..200).map(|half| {
            let quantile = f64::from(half) / 200.0;
            (all.value_at_quantile(quantile) as f64 / 1e3, quantile * 100.0)
        });
        chart = chart.series(name, points.collect());
    }
    Findings { tables: vec![targets, table], charts: vec![chart] }
}

/// Each timer in a task of its own.
fn watch<F: Future<Output = ()> + Send + 'static>(
    rig: &Rig,
    offsets: &[Duration],
    make: impl Fn(Instant) -> F,
) -> Run {
    const DIGITS: u8 = 3;
    let cpu = cpu_time();
    let lateness = rig.runtime.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> = offsets
            .iter()
            .map(|&offset| {
                let deadline = start + offset;
                let timer = make(deadline);
                tokio::spawn(async move {
                    timer.await;
                    Instant::now().checked_duration_since(deadline).expect("no timer is early")
                })
            })
            .collect();
        assert!(start.elapsed() < LEAD, "spawning took longer than the time until the first deadline");
        let mut lateness = Histogram::new(DIGITS).expect("digits that it can keep");
        for task in tasks {
            let late = task.await.expect("the task does not panic");
            let nanos = u64::try_from(late.as_nanos()).expect("less than 584 years");
            lateness.record(nanos).expect("a histogram that grows");
        }
        lateness
    });
    Run { lateness, cpu: cpu_time() - cpu }
}
