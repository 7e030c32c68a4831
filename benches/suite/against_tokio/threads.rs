//! Timeouts in tasks on more and more workers, and threads that share one shard.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::yield_now;

use super::{SIDES, row, row_of_values, targets};
use crate::sides::{FAR, Rig, Timers, Tokio, assert_pending, join};
use crate::support::{
    Comparison, Findings, Scale, Table, Unit, median, number, rounds, target, time, warm_rounds,
};

/// Of a case: how many tasks, and how many timeouts each makes.
#[derive(Clone, Copy)]
struct Tasks {
    count: usize,
    each: usize,
}

impl Tasks {
    fn operations(self) -> usize {
        self.count * self.each
    }

    fn time<F: Future<Output = ()> + Send + 'static>(
        self,
        runtime: &Runtime,
        task: impl Fn() -> F,
    ) -> Duration {
        time(|| {
            runtime.block_on(async {
                join((0..self.count).map(|_| tokio::spawn(task())).collect::<Vec<_>>()).await;
            });
        })
    }

    fn with(self, runtime: &Runtime, timers: &impl Timers) -> Duration {
        self.time(runtime, || {
            let timers = timers.clone();
            async move {
                for _ in 0..self.each {
                    assert!(timers.timeout(FAR, yield_now()).await.is_ok(), "time enough");
                }
            }
        })
    }

    fn without(self, runtime: &Runtime) -> Duration {
        self.time(runtime, || async move {
            for _ in 0..self.each {
                yield_now().await;
            }
        })
    }

    /// Runs all sides in turn, and checks that each timeout reached its wheel, those of the first round too.
    fn rounds(self, scale: Scale, rigs: &[Rig], sides: &mut [&mut dyn FnMut() -> Duration]) -> Vec<Vec<f64>> {
        let found = warm_rounds(scale.rounds(), sides);
        for rig in rigs {
            let made = (self.operations() * (scale.rounds() + 1)) as u64;
            assert_eq!(rig.wheel.stats().armed, made, "each timeout reached the wheel");
        }
        let nanos = |time: Duration| time.as_nanos() as f64 / self.operations() as f64;
        found.into_iter().map(|round| round.into_iter().map(nanos).collect()).collect()
    }
}

/// The sides for each number of workers, in this order.
const RATES: [&str; 3] = ["timingwheel", "tokio", "no timers"];
/// Of which the targets speak.
const FROM: usize = 1;
const TO: usize = 2;
const GROWTH: f64 = 1.3;

pub(super) fn workers(scale: Scale) -> Findings {
    let tasks = Tasks { count: 64, each: scale.of(8_000) };
    let cores = available_parallelism().map_or(TO, usize::from);
    let workers: Vec<usize> = std::iter::successors(Some(FROM), |workers| Some(workers * 2))
        .take_while(|&n| n <= cores.max(TO))
        .collect();
    eprintln!("{} tasks on 1 to {} workers", tasks.count, workers[workers.len() - 1]);
    let rigs: Vec<Rig> = workers.iter().map(|&workers| Rig::new(workers)).collect();
    // All in one round, so that each of its ratios is of runs at nearly the same time.
    let mut sides: Vec<Box<dyn FnMut() -> Duration + '_>> = Vec::new();
    for Rig { runtime, wheel } in &rigs {
        sides.push(Box::new(move || tasks.with(runtime, wheel)));
        sides.push(Box::new(move || tasks.with(runtime, &Tokio)));
        sides.push(Box::new(move || tasks.without(runtime)));
    }
    let mut sides: Vec<_> =
        sides.iter_mut().map(|side| &mut **side as &mut dyn FnMut() -> Duration).collect();
    let found = tasks.rounds(scale, &rigs, &mut sides);

    // Operations in a second, from nanoseconds for each.
    let rate = |nanos: f64| 1e9 / nanos;
    let place = |workers_place: usize, side: usize| workers_place * RATES.len() + side;
    let typical = |workers_place: usize, side: usize| {
        median(found.iter().map(|round| rate(round[place(workers_place, side)])))
    };
    let at = |wanted: usize| workers.iter().position(|&n| n == wanted).expect("both are measured");
    let (from, to) = (at(FROM), at(TO));
    let name = "`timeout(30 s, yield)` in 64 tasks, 2 workers";
    let cost = Comparison::of_rounds(name, Unit::Nanos, &found, (place(to, 0), place(to, 1)), |nanos| *nanos);
    let growth = |side| median(found.iter().map(|round| round[place(from, side)] / round[place(to, side)]));
    let [ours, tokio, none] = [0, 1, 2].map(growth);

    let mut rates = Table::new("Timeouts in tasks", ["workers"].into_iter().chain(RATES))
        .note(format!("From {FROM} to {TO} workers the loop without timers grows {} times.", number(none)));
    for (place, workers) in workers.iter().enumerate() {
        let cells = (0..RATES.len()).map(|side| Unit::PerSecond.show(typical(place, side)));
        rates = rates.row([workers.to_string()].into_iter().chain(cells));
    }
    let targets = targets().row(row(&cost, Some(0.5))).row(row_of_values(
        "64 tasks, operations per second from 1 to 2 workers",
        [ours, tokio].map(|growth| format!("{} times", number(growth))),
        target(format!("at least {GROWTH} times"), ours >= GROWTH),
    ));
    Findings { tables: vec![targets, rates] }
}

/// How many workers 256 tasks have, and the target.
const CROWDED: [(&str, usize, f64); 2] = [
    ("`timeout(30 s, yield)` in 256 tasks, 8 workers", 8, 0.6),
    ("`timeout(30 s, yield)` in 256 tasks, 32 workers", 32, 0.8),
];
const THREADS: usize = 32;
/// How long the threads arm and cancel.
const LENGTH: Duration = Duration::from_secs(1);

pub(super) fn crowds(scale: Scale) -> Findings {
    let tasks = Tasks { count: 256, each: scale.of(1_000) };
    let table = CROWDED.into_iter().fold(targets(), |table, (name, workers, target)| {
        eprintln!("{} tasks on {workers} workers", tasks.count);
        let rigs = [Rig::new(workers)];
        let [Rig { runtime, wheel }] = &rigs;
        let sides: &mut [&mut dyn FnMut() -> Duration] =
            &mut [&mut || tasks.with(runtime, wheel), &mut || tasks.with(runtime, &Tokio)];
        let found = tasks.rounds(scale, &rigs, sides);
        table.row(row(&Comparison::of_rounds(name, Unit::Nanos, &found, SIDES, |nanos| *nanos), Some(target)))
    });
    eprintln!("{THREADS} threads on one shard");
    on_one_shard(scale, table)
        .note(format!(
            "One shard: {THREADS} threads arm and cancel for {} ms, each alone, on the timers of a current-thread runtime \
             that does nothing else. The longest wait is the longest that one of them took to arm and cancel one timer.",
            LENGTH.as_millis()
        ))
        .into()
}

/// What threads came to that shared one shard.
struct Shared {
    /// Nanoseconds for each timer, of all threads together.
    each: f64,
    /// In nanoseconds.
    longest: f64,
    /// Of all threads together.
    timers: u64,
}

fn on_one_shard(scale: Scale, table: Table) -> Table {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let Rig { wheel, runtime } = Rig::with(runtime, TimingWheel::builder());
    let _within = runtime.enter();
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || shared(scale, || wheel.sleep(FAR)), &mut || shared(scale, || tokio::time::sleep(FAR))],
    );
    let (armed, made) = (wheel.stats().armed, found.iter().map(|sides| sides[SIDES.0].timers).sum());
    assert!(armed >= made, "only {armed} of {made} timers reached the wheel");
    let alone = rounds(scale.few_rounds(), &mut [&mut || shared(scale, || Computes)]);
    let alone = alone.iter().map(|sides| sides[0].longest).fold(0.0, f64::max);
    let of = |name, value: fn(&Shared) -> f64| {
        row(&Comparison::of_rounds(name, Unit::Nanos, &found, SIDES, value), Some(1.0))
    };
    table
        .row(of("32 threads on one shard, arm and cancel", |shared| shared.each))
        .row(of("32 threads on one shard, the longest wait", |shared| shared.longest))
        .note(format!(
            "As many threads that share nothing and compute for as long took up to {}: they wait for a processor.",
            Unit::Nanos.show(alone)
        ))
}

/// Computes for as long as it takes to arm and cancel a timer, and is not ready.
struct Computes;

impl Future for Computes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        (0..200_u64).fold(1_u64, |sum, n| black_box(sum.wrapping_mul(31) + n));
        Poll::Pending
    }
}

fn shared<F: Future>(scale: Scale, make: impl Fn() -> F + Sync) -> Shared {
    let (begin, stop) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let runtime = Handle::current();
    let work = || {
        let _within = runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut count, mut longest) = (0_u64, Duration::ZERO);
        begin.wait();
        while !stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            assert_pending(pin!(make()), &mut cx);
            longest = longest.max(start.elapsed());
            count += 1;
        }
        (count, longest)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        begin.wait();
        let start = Instant::now();
        thread::sleep(scale.length(LENGTH));
        stop.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        let found: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect();
        let timers: u64 = found.iter().map(|(count, _)| count).sum();
        let longest = found.iter().map(|&(_, longest)| longest).max().expect("there are threads");
        Shared { each: elapsed.as_nanos() as f64 / timers as f64, longest: longest.as_nanos() as f64, timers }
    })
}
