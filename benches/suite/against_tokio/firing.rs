//! The CPU time of timers that fire: wall-clock time would be their delay.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::rig::{Rig, Wakes, arm_all, take_all};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, Table, Unit, cpu_time, rounds};

const SPREAD: Duration = Duration::from_secs(2);
const BURST: Duration = Duration::from_millis(10);

/// Nanoseconds of CPU for each timer.
#[derive(Clone, Copy)]
struct Spent {
    arm: f64,
    fire: f64,
    take: f64,
}

impl Spent {
    fn all(&self) -> f64 {
        self.arm + self.fire + self.take
    }
}

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let parts = Table::new("CPU time of a timer that fires", ["what", "ours", "tokio", "ratio"]).about("CPU").ratio("ratio", "ours", "tokio").note(
        "A waker that only counts stands for the task. Arm: make and poll. Fire: all until it is woken. Take: the poll \
         that is ready, and the drop.",
    );
    let (spread, parts) = of_wakers(
        scale,
        &rig,
        "CPU for each of a million timers over 2 s",
        scale.length(SPREAD),
        "over 2 s",
        parts,
    );
    let (burst, parts) =
        of_wakers(scale, &rig, "CPU for each of a million timers within 10 ms", BURST, "within 10 ms", parts);
    let spawned = of_tasks(scale, &rig);
    let targets =
        targets().row(row(&spread, Some(0.45))).row(row(&burst, Some(0.45))).row(row(&spawned, None));
    Findings { tables: vec![targets, parts], charts: Vec::new() }
}

/// Random times in `spread`, after what arming takes.
fn deadlines(scale: Scale, timers: usize, spread: Duration) -> Vec<Instant> {
    let lead = if scale.is_test() { Duration::from_millis(100) } else { Duration::from_secs(2) };
    let first = Instant::now() + lead;
    (0..timers).map(|_| first + spread.mul_f64(fastrand::f64())).collect()
}

fn of_wakers(
    scale: Scale,
    rig: &Rig,
    name: &'static str,
    spread: Duration,
    shape: &str,
    mut parts: Table,
) -> (Comparison, Table) {
    eprintln!("{name}");
    let timers = scale.of(1_000_000);
    let before = rig.wheel.stats();
    let times = || deadlines(scale, timers, spread);
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || spent(&times(), |deadline| rig.wheel.sleep_until(deadline)), &mut || {
            spent(&times(), |deadline| Box::pin(sleep_until(deadline)))
        }],
    );
    assert_eq!(rig.wheel.stats().fired - before.fired, (timers * found.len()) as u64);
    let of = |name, part: fn(&Spent) -> f64| {
        let pairs: Vec<_> = found.iter().map(|sides| (part(&sides[0]), part(&sides[1]))).collect();
        Comparison::of(name, Unit::Nanos, &pairs)
    };
    for part in [of("arm", |spent| spent.arm), of("fire", |spent| spent.fire), of("take", |spent| spent.take)]
    {
        let mut cells = part.cells();
        cells[0] = format!("{}, {shape}", part.name);
        parts = parts.row(cells);
    }
    (of(name, Spent::all), parts)
}

fn spent<S: Future + Unpin>(deadlines: &[Instant], make: impl Fn(Instant) -> S) -> Spent {
    let (first, last) = (deadlines.iter().min().expect("some"), deadlines.iter().max().expect("some"));
    let wakes = Arc::<Wakes>::default();
    let start = cpu_time();
    let timers = arm_all(deadlines, &wakes, make);
    let armed = cpu_time();
    assert!(Instant::now() < *first, "arming took longer than the time until the first deadline");
    assert_eq!(wakes.count(), 0, "a timer was early");
    thread::sleep(last.saturating_duration_since(Instant::now()));
    while wakes.count() < deadlines.len() {
        thread::sleep(Duration::from_millis(1));
    }
    let fired = cpu_time();
    take_all(timers);
    let each = |time: Duration| time.as_nanos() as f64 / deadlines.len() as f64;
    Spent { arm: each(armed - start), fire: each(fired - armed), take: each(cpu_time() - fired) }
}

fn of_tasks(scale: Scale, rig: &Rig) -> Comparison {
    let name = "CPU for each of 300,000 tasks that sleep, over 2 s";
    eprintln!("{name}");
    let timers = scale.of(300_000);
    let before = rig.wheel.stats();
    let times = || deadlines(scale, timers, scale.length(SPREAD));
    let found = rounds(
        scale.few_rounds(),
        &mut [
            &mut || {
                spent_by_tasks(rig, &times(), |deadline| {
                    let wheel = rig.wheel.clone();
                    async move { wheel.sleep_until(deadline).await }
                })
            },
            &mut || spent_by_tasks(rig, &times(), sleep_until),
        ],
    );
    assert_eq!(rig.wheel.stats().fired - before.fired, (timers * found.len()) as u64);
    let pairs: Vec<_> = found.iter().map(|sides| (sides[0], sides[1])).collect();
    Comparison::of(name, Unit::Nanos, &pairs)
}

fn spent_by_tasks<F: Future<Output = ()> + Send + 'static>(
    rig: &Rig,
    deadlines: &[Instant],
    make: impl Fn(Instant) -> F,
) -> f64 {
    let start = cpu_time();
    rig.runtime.block_on(async {
        let tasks: Vec<_> = deadlines
            .iter()
            .map(|&deadline| {
                let timer = make(deadline);
                tokio::spawn(async move {
                    timer.await;
                    assert!(Instant::now() >= deadline, "a timer was early");
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("the task does not panic");
        }
    });
    (cpu_time() - start).as_nanos() as f64 / deadlines.len() as f64
}
