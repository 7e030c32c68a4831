//! Ten thousand wheels, made, used and dropped in each of the ways in which one can end: after that as much is allocated
//! as before, to the byte.
//!
//! One test, alone in its process, because it counts what the whole process allocates. Tasks and threads that are left
//! are counted in `leaks.rs`.

use std::alloc::System;
use std::fmt;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WHEELS: usize = 10_000;
/// After so many of them, whatever is made once has been.
const WARM: usize = 500;
const HANG_GUARD: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Live {
    blocks: usize,
    bytes: usize,
}

impl Live {
    fn now() -> Self {
        let stats = ALLOCATOR.stats();
        Self {
            blocks: stats.allocations - stats.deallocations,
            bytes: stats.bytes_allocated - stats.bytes_deallocated,
        }
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks with {} bytes", self.blocks, self.bytes)
    }
}

/// How a wheel ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// With its last handle, when nothing is pending.
    Unused,
    /// With its last timers, when no handle is left.
    TimersLeft,
    /// By a shutdown, with timers pending.
    Shutdown,
}

fn registered(wheel: &TimingWheel, duration: Duration) -> Spawn<Sleep> {
    let mut sleep = spawn(wheel.sleep(duration));
    assert_pending!(sleep.poll());
    sleep
}

/// Makes a wheel, arms timers that need an overflow level and one that has none, moves and cancels one, and returns
/// what is pending.
fn use_wheel(wheel: &TimingWheel) -> [Spawn<Sleep>; 3] {
    let mut sleeps = [HOUR, 24 * HOUR, Duration::MAX].map(|duration| registered(wheel, duration));
    sleeps[0].enter(|_, sleep| sleep.reset_after(HOUR / 2));
    drop(registered(wheel, HOUR));
    assert_ready!(spawn(wheel.sleep(Duration::ZERO)).poll());
    sleeps
}

/// Makes so many wheels, and waits until nothing is left of their tasks.
async fn make_and_drop(wheels: usize, end: End) {
    for n in 0..wheels {
        let wheel = TimingWheel::new();
        let sleeps = use_wheel(&wheel);
        match end {
            End::Unused => {
                drop(sleeps);
                drop(wheel);
            }
            End::TimersLeft => {
                drop(wheel);
                drop(sleeps);
            }
            End::Shutdown => assert_eq!(wheel.shutdown(), 3),
        }
        if n % 8 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let start = Instant::now();
    while Handle::current().metrics().num_alive_tasks() > 0 {
        assert!(start.elapsed() < HANG_GUARD, "tasks are left");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn on_current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime for each wheel, which ends with it.
fn make_and_drop_with_runtime(wheels: usize) {
    for _ in 0..wheels {
        let runtime = on_current_thread();
        let wheel = runtime.block_on(async { TimingWheel::new() });
        let sleeps = use_wheel(&wheel);
        drop(runtime);
        assert_eq!(wheel.pending(), 0);
        drop(sleeps);
    }
}

/// Waits until as much is allocated as was; the alarms' threads end by themselves.
#[track_caller]
fn assert_comes_back_to(warm: Live, what: impl fmt::Debug) {
    let start = Instant::now();
    while Live::now() != warm {
        let now = Live::now();
        assert!(start.elapsed() < HANG_GUARD, "{what:?}: {now} are allocated after {warm}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// What is allocated when the threads of the alarms have ended, so that it stays the same.
fn level() -> Live {
    let mut before = Live::now();
    loop {
        thread::sleep(Duration::from_millis(100));
        let now = Live::now();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn ten_thousand_wheels_leave_not_a_byte_however_they_end() {
    let before = Live::now();
    let kept = black_box(Box::new([0_u8; 100]));
    assert_eq!(Live::now().bytes - before.bytes, 100, "allocations are not counted");
    drop(kept);

    let multi_thread = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for runtime in [on_current_thread(), multi_thread] {
        for end in [End::Unused, End::TimersLeft, End::Shutdown] {
            runtime.block_on(make_and_drop(WARM, end));
            let warm = level();
            runtime.block_on(make_and_drop(WHEELS, end));
            assert_comes_back_to(warm, end);
        }
    }
    make_and_drop_with_runtime(WARM);
    let warm = level();
    make_and_drop_with_runtime(WHEELS);
    assert_comes_back_to(warm, "with its runtime");
}
