//! Two thousand wheels end in each possible way, and leave no task, no thread and nothing allocated, to the byte. Two
//! hundred wheels that live at the same time share one thread.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::ALLOCATOR;
use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready};

/// Of each kind of runtime and of end, which are seven.
const WHEELS: usize = 300;
/// After so many of them, whatever is made once has been.
const WARM: usize = 100;
const ROUNDS: usize = 3;
const HANG_GUARD: Duration = Duration::from_secs(30);
/// Longer than a thread that is about to end takes on a busy machine.
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is allocated.
#[derive(Clone, Copy, Debug)]
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

    fn is_within(self, other: Self) -> bool {
        self.blocks <= other.blocks && self.bytes <= other.bytes
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
    sleeps[0].enter(|_, mut sleep| sleep.reset_after(HOUR / 2));
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

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Makes and drops some wheels by `work`, then more of them, and sees that it makes no difference to what is allocated.
#[track_caller]
fn assert_leaves_nothing(what: impl fmt::Debug, threads_before: usize, work: impl Fn(usize)) {
    work(WARM);
    assert!(is_soon(|| threads() <= threads_before), "{what:?}: threads are left");
    // A thread may first come to make what it keeps for good in one round. A leak is in each.
    for round in 1..=ROUNDS {
        let before = Live::now();
        work(WHEELS);
        // A worker of the runtime's, or a thread that ends, may hold something for a moment, as it may have before.
        if is_soon(|| Live::now().is_within(before)) {
            return;
        }
        assert!(round < ROUNDS, "{what:?}: {:?} after {before:?}, again", Live::now());
    }
}

fn is_soon(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > SOON {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn two_thousand_wheels_leave_not_a_byte_however_they_end() {
    if super::ran_alone(two_thousand_wheels_leave_not_a_byte_however_they_end) {
        return;
    }
    let allocated = Live::now();
    let kept = black_box(Box::new([0_u8; 100]));
    assert_eq!(Live::now().bytes - allocated.bytes, 100, "allocations are not counted");
    drop(kept);

    let multi_thread = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let before = threads();
    for runtime in [on_current_thread(), multi_thread] {
        runtime.block_on(async {
            let wheels = [(); 200].map(|()| TimingWheel::new());
            for wheel in &wheels {
                wheel.sleep(Duration::from_millis(1)).await;
            }
            assert!(threads() <= before + 1, "{} threads more for 200 wheels", threads() - before);
        });
        for end in [End::Unused, End::TimersLeft, End::Shutdown] {
            assert_leaves_nothing(end, before, |wheels| runtime.block_on(make_and_drop(wheels, end)));
        }
    }
    // These runtimes have been dropped, with their workers.
    assert_leaves_nothing("with its runtime", threads(), make_and_drop_with_runtime);
}
