//! Timers that fire, each awaited by a task.

use std::time::Duration;

use hdrhistogram::Histogram;
use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::settings;
use crate::support::{Findings, Scale, Table, Unit, cpu_time, median, number, rounds};

/// About four to a millisecond.
const TIMERS: usize = 8_000;
const SPREAD: Duration = Duration::from_secs(2);
/// Delays are so much longer than that.
const LEAD: Duration = Duration::from_millis(500);

struct Run {
    /// In nanoseconds.
    lateness: Histogram<u64>,
    cpu: Duration,
    wakeups: u64,
    cascaded: u64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let timers = scale.of(TIMERS);
    let spread = scale.length(SPREAD);
    let delays: Vec<Duration> = (0..timers).map(|_| LEAD + spread.mul_f64(fastrand::f64())).collect();
    let settings = settings();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let wheels: Vec<TimingWheel> = settings
        .iter()
        .map(|(_, settings)| {
            let build = async { settings.clone().build() };
            runtime.block_on(build).expect("settings within their limits")
        })
        .collect();
    eprintln!("{timers} timers with each profile");
    let mut sides: Vec<_> = wheels.iter().map(|wheel| || watch(&runtime, wheel, &delays)).collect();
    let mut sides: Vec<&mut dyn FnMut() -> Run> = sides.iter_mut().map(|side| side as _).collect();
    let found = rounds(scale.few_rounds(), &mut sides);

    let header =
        ["profile", "lateness p50", "p99", "wake-ups in a second", "moves of a timer", "CPU for each"];
    let mut table = Table::new("About four timers to a millisecond, by profile", header);
    for (side, (name, _)) in settings.iter().enumerate() {
        let of_runs = |value: &dyn Fn(&Run) -> f64| median(found.iter().map(|sides| value(&sides[side])));
        let late = |quantile| of_runs(&|run| run.lateness.value_at_quantile(quantile) as f64);
        table = table.row([
            name.clone(),
            Unit::Nanos.show(late(0.5)),
            Unit::Nanos.show(late(0.99)),
            Unit::Count.show((of_runs(&|run| run.wakeups as f64) / spread.as_secs_f64()).round()),
            number(of_runs(&|run| run.cascaded as f64) / timers as f64),
            Unit::Nanos.show(of_runs(&|run| run.cpu.as_nanos() as f64) / timers as f64),
        ]);
    }
    table
        .note("Tasks on 2 workers, with delays of 0.5 s to 2.5 s; none was early. CPU time is that of the whole process.")
        .into()
}

/// Each timer in a task of its own.
fn watch(runtime: &Runtime, wheel: &TimingWheel, delays: &[Duration]) -> Run {
    const DIGITS: u8 = 3;
    let (before, cpu) = (wheel.stats(), cpu_time());
    let mut lateness = Histogram::new(DIGITS).expect("digits that it can keep");
    runtime.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> = delays
            .iter()
            .map(|&delay| {
                let (wheel, deadline) = (wheel.clone(), start + delay);
                tokio::spawn(async move {
                    wheel.sleep_until(deadline).await;
                    Instant::now().checked_duration_since(deadline).expect("no timer is early")
                })
            })
            .collect();
        for task in tasks {
            let late = task.await.expect("the task does not panic");
            let nanos = u64::try_from(late.as_nanos()).expect("less than 584 years");
            lateness.record(nanos).expect("a histogram that grows");
        }
    });
    let after = wheel.stats();
    assert_eq!(after.fired - before.fired, delays.len() as u64, "each reached the wheel");
    Run {
        lateness,
        cpu: cpu_time() - cpu,
        wakeups: after.turns - before.turns,
        cascaded: after.cascaded - before.cascaded,
    }
}
