//! More threads than cores: tasks on many workers, and threads that share one shard.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::runtime::Builder;
use tokio::task::yield_now;

use super::rig::{FAR, Rig, assert_pending};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, Table, Unit, rounds, time};

const TASKS: usize = 256;
/// How many workers, and the target.
const WORKERS: [(&str, usize, f64); 2] = [
    ("`timeout(30 s, yield)` in 256 tasks, 8 workers", 8, 0.6),
    ("`timeout(30 s, yield)` in 256 tasks, 32 workers", 32, 0.8),
];
const THREADS: usize = 32;
/// How long the threads arm and cancel.
const LENGTH: Duration = Duration::from_secs(1);

pub(super) fn run(scale: Scale) -> Findings {
    let mut table = targets();
    for (name, workers, target) in WORKERS {
        eprintln!("{TASKS} tasks on {workers} workers");
        table = table.row(row(&in_tasks(scale, name, workers), Some(target)));
    }
    eprintln!("{THREADS} threads on one shard");
    on_one_shard(scale, table)
        .note(format!(
            "One shard: {THREADS} threads arm and cancel for {} ms, each alone, on the timers of a current-thread runtime \
             that does nothing else. The longest wait is the longest that one of them took to arm and cancel one timer.",
            LENGTH.as_millis()
        ))
        .into()
}

fn in_tasks(scale: Scale, name: &'static str, workers: usize) -> Comparison {
    let each = scale.of(1_000);
    let Rig { runtime, wheel } = Rig::new(workers);
    let spawn_all = |ours: bool| {
        time(|| {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..TASKS)
                    .map(|_| {
                        let wheel = wheel.clone();
                        tokio::spawn(async move {
                            for _ in 0..each {
                                if ours {
                                    wheel.timeout(FAR, yield_now()).await.expect("time enough");
                                } else {
                                    tokio::time::timeout(FAR, yield_now()).await.expect("time enough");
                                }
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("the task does not panic");
                }
            });
        })
    };
    // The first round does not count: in it pools get warm.
    let found = rounds(scale.rounds() + 1, &mut [&mut || spawn_all(true), &mut || spawn_all(false)]);
    let made = (each * TASKS * (scale.rounds() + 1)) as u64;
    assert_eq!(wheel.stats().armed, made, "each timeout reached the wheel");
    let nanos = |duration: Duration| duration.as_nanos() as f64 / (each * TASKS) as f64;
    let pairs: Vec<_> = found[1..].iter().map(|sides| (nanos(sides[0]), nanos(sides[1]))).collect();
    Comparison::of(name, Unit::Nanos, &pairs)
}

/// What threads came to that shared one shard.
struct Shared {
    /// Nanoseconds for each timer, of all threads together.
    each: f64,
    /// In nanoseconds.
    longest: f64,
}

fn on_one_shard(scale: Scale, table: Table) -> Table {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let _within = runtime.enter();
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || shared(scale, || wheel.sleep(FAR)), &mut || shared(scale, || tokio::time::sleep(FAR))],
    );
    assert!(wheel.stats().armed > 0, "the timers reached the wheel");
    let alone = rounds(scale.few_rounds(), &mut [&mut || shared(scale, || Computes)]);
    let alone = alone.iter().map(|sides| sides[0].longest).fold(0.0, f64::max);
    let of = |name, value: fn(&Shared) -> f64| {
        let pairs: Vec<_> = found.iter().map(|sides| (value(&sides[0]), value(&sides[1]))).collect();
        Comparison::of(name, Unit::Nanos, &pairs)
    };
    table
        .row(row(&of("32 threads on one shard, arm and cancel", |shared| shared.each), Some(1.0)))
        .row(row(&of("32 threads on one shard, the longest wait", |shared| shared.longest), Some(1.0)))
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
    let runtime = tokio::runtime::Handle::current();
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
        let count: u64 = found.iter().map(|(count, _)| count).sum();
        let longest = found.iter().map(|&(_, longest)| longest).max().expect("there are threads");
        Shared { each: elapsed.as_nanos() as f64 / count as f64, longest: longest.as_nanos() as f64 }
    })
}
