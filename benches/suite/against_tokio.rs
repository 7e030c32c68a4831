//! What timers cost on a wheel, and what on `tokio::time`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Case, Comparison, Findings, Scale, Table, compare, time};
use timingwheel::{Sleep, Stats, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

const FAR: Duration = Duration::from_secs(30);
/// Further than all steps of a run that brings a deadline nearer.
const VERY_FAR: Duration = Duration::from_secs(10_000);

pub(crate) fn cases() -> Vec<Case> {
    vec![Case { name: "against_tokio", question: "What do timers cost against `tokio::time`?", run: costs }]
}

fn costs(scale: Scale) -> Findings {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let comparisons = [
        arm_and_cancel(scale, &runtime, &wheel),
        replace_among_many(scale, &runtime, &wheel),
        reset(scale, &runtime, &wheel, "reset to later", |step| FAR + Duration::from_millis(step)),
        reset(scale, &runtime, &wheel, "reset to earlier", |step| VERY_FAR - Duration::from_millis(step)),
        poll_again(scale, &runtime, &wheel),
        ready_at_once(scale, &runtime, &wheel),
        timeouts_in_tasks(scale),
        fire(scale, &runtime, &wheel),
    ];
    let table = Table::new("Targets", ["what", "ours", "tokio", "ratio"]);
    comparisons.iter().fold(table, |table, comparison| table.row(comparison.cells())).into()
}

/// Runs `work` in a task of the runtime, with the task's waker, and without a budget that would cut it short.
fn in_task(runtime: &Runtime, mut work: impl FnMut(&mut Context<'_>) + Send) -> Duration {
    std::thread::scope(|scope| {
        // A scoped thread, because a task has to be `'static` and `work` borrows.
        scope
            .spawn(|| runtime.block_on(unconstrained(poll_fn(|cx| Poll::Ready(time(|| work(cx)))))))
            .join()
            .expect("the work does not panic")
    })
}

/// Checks that the wheel saw as many timers as it should have.
fn assert_armed(wheel: &TimingWheel, before: Stats, at_least: usize) {
    let armed = wheel.stats().armed - before.armed;
    assert!(armed >= at_least as u64, "only {armed} of {at_least} timers reached the wheel");
}

fn assert_pending<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) {
    assert!(future.poll(cx).is_pending(), "the timer was not registered");
}

fn arm_and_cancel(scale: Scale, runtime: &Runtime, wheel: &TimingWheel) -> Comparison {
    let operations = scale.of(1_000_000);
    let before = wheel.stats();
    let comparison = compare(
        scale,
        "create, first poll, drop",
        operations,
        || in_task(runtime, |cx| (0..operations).for_each(|_| assert_pending(pin!(wheel.sleep(FAR)), cx))),
        || {
            in_task(runtime, |cx| {
                (0..operations).for_each(|_| assert_pending(pin!(tokio::time::sleep(FAR)), cx));
            })
        },
    );
    assert_armed(wheel, before, operations);
    comparison
}

fn replace_among_many(scale: Scale, runtime: &Runtime, wheel: &TimingWheel) -> Comparison {
    let (timers, operations) = (scale.of(1_000_000), scale.of(1_000_000));
    let delay = || Duration::from_millis(fastrand::u64(1_000..1_000_000));
    let before = wheel.stats();
    let mut ours: Vec<Sleep> = Vec::new();
    let mut rival: Vec<Pin<Box<tokio::time::Sleep>>> = Vec::new();
    in_task(runtime, |cx| {
        for _ in 0..timers {
            let mut sleep = wheel.sleep(delay());
            assert_pending(Pin::new(&mut sleep), cx);
            ours.push(sleep);
            let mut sleep = Box::pin(tokio::time::sleep(delay()));
            assert_pending(sleep.as_mut(), cx);
            rival.push(sleep);
        }
    });
    let comparison = compare(
        scale,
        "replace a random one of a million",
        operations,
        || {
            in_task(runtime, |cx| {
                for _ in 0..operations {
                    let place = &mut ours[fastrand::usize(..timers)];
                    *place = wheel.sleep(delay());
                    assert_pending(Pin::new(place), cx);
                }
            })
        },
        || {
            in_task(runtime, |cx| {
                for _ in 0..operations {
                    let place = &mut rival[fastrand::usize(..timers)];
                    place.set(tokio::time::sleep(delay()));
                    assert_pending(place.as_mut(), cx);
                }
            })
        },
    );
    assert_armed(wheel, before, timers + operations);
    comparison
}

fn reset(
    scale: Scale,
    runtime: &Runtime,
    wheel: &TimingWheel,
    name: &'static str,
    delay: impl Fn(u64) -> Duration + Send + Copy + Sync,
) -> Comparison {
    let operations = scale.of(1_000_000);
    let before = wheel.stats();
    let comparison = compare(
        scale,
        name,
        operations,
        || {
            in_task(runtime, |cx| {
                let start = Instant::now();
                let mut sleep = pin!(wheel.sleep_until(start + delay(0)));
                assert_pending(sleep.as_mut(), cx);
                (1..operations as u64).for_each(|step| sleep.as_mut().reset(start + delay(step)));
            })
        },
        || {
            in_task(runtime, |cx| {
                let start = Instant::now();
                let mut sleep = pin!(tokio::time::sleep_until(start + delay(0)));
                assert_pending(sleep.as_mut(), cx);
                (1..operations as u64).for_each(|step| sleep.as_mut().reset(start + delay(step)));
            })
        },
    );
    assert_armed(wheel, before, 1);
    comparison
}

fn poll_again(scale: Scale, runtime: &Runtime, wheel: &TimingWheel) -> Comparison {
    let operations = scale.of(1_000_000);
    let before = wheel.stats();
    let again = |mut sleep: Pin<&mut (dyn Future<Output = ()> + Send)>, cx: &mut Context<'_>| {
        (0..operations).for_each(|_| assert!(sleep.as_mut().poll(cx).is_pending()));
    };
    let comparison = compare(
        scale,
        "poll a pending one again",
        operations,
        || in_task(runtime, |cx| again(pin!(wheel.sleep(FAR)), cx)),
        || in_task(runtime, |cx| again(pin!(tokio::time::sleep(FAR)), cx)),
    );
    assert_armed(wheel, before, 1);
    comparison
}

fn ready_at_once(scale: Scale, runtime: &Runtime, wheel: &TimingWheel) -> Comparison {
    let operations = scale.of(1_000_000);
    compare(
        scale,
        "a timeout round a ready future",
        operations,
        || {
            in_task(runtime, |cx| {
                for _ in 0..operations {
                    assert!(pin!(wheel.timeout(FAR, std::future::ready(()))).poll(cx).is_ready());
                }
            })
        },
        || {
            in_task(runtime, |cx| {
                for _ in 0..operations {
                    assert!(pin!(tokio::time::timeout(FAR, std::future::ready(()))).poll(cx).is_ready());
                }
            })
        },
    )
}

fn timeouts_in_tasks(scale: Scale) -> Comparison {
    const TASKS: usize = 64;
    let each = scale.of(20_000);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let in_tasks = |task: &dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>>| {
        time(|| {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task())).collect();
                for task in tasks {
                    task.await.expect("the task does not panic");
                }
            });
        })
    };
    let comparison = compare(
        scale,
        "timeout(30 s, yield) in 64 tasks, 2 workers",
        each * TASKS,
        || {
            in_tasks(&|| {
                let wheel = wheel.clone();
                Box::pin(async move {
                    for _ in 0..each {
                        wheel.timeout(FAR, tokio::task::yield_now()).await.expect("30 s are enough");
                    }
                })
            })
        },
        || {
            in_tasks(&|| {
                Box::pin(async move {
                    for _ in 0..each {
                        tokio::time::timeout(FAR, tokio::task::yield_now()).await.expect("30 s are enough");
                    }
                })
            })
        },
    );
    assert_armed(&wheel, Stats::default(), each * TASKS);
    comparison
}

fn fire(scale: Scale, runtime: &Runtime, wheel: &TimingWheel) -> Comparison {
    let timers = scale.of(200_000);
    let delays: Vec<Duration> =
        (0..timers).map(|_| Duration::from_micros(fastrand::u64(1_000..500_000))).collect();
    let before = wheel.stats();
    // CPU time, because the wall-clock time of a sleep is its delay.
    let cpu = |work: &dyn Fn()| {
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
        };
        let start = now();
        work();
        now() - start
    };
    let all = |sleeps: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>| {
        runtime.block_on(async {
            let tasks: Vec<_> = sleeps.into_iter().map(tokio::spawn).collect();
            for task in tasks {
                task.await.expect("the task does not panic");
            }
        });
    };
    let comparison = compare(
        scale,
        "spawn, arm and fire, CPU time",
        timers,
        || cpu(&|| all(delays.iter().map(|&delay| Box::pin(wheel.sleep(delay)) as _).collect())),
        || {
            cpu(&|| {
                let _guard = runtime.enter();
                all(delays.iter().map(|&delay| Box::pin(tokio::time::sleep(delay)) as _).collect());
            })
        },
    );
    let fired = wheel.stats().fired - before.fired;
    // A timer whose deadline has passed before its first poll is not registered.
    assert!(fired > 0 && wheel.pending() == 0, "{fired} of {timers} timers fired");
    comparison
}
