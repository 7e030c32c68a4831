//! A warm wheel allocates nothing: neither where a timer is armed, moved and cancelled, nor where it fires, on whichever
//! thread. `benches/instructions` shows the same for each operation by itself, but sees only the caller's thread.
//!
//! One test, alone in its process, because it counts what the whole process allocates.

use std::alloc::System;
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TIMERS: u32 = 10_000;
/// Pending at a time.
const AT_A_TIME: u32 = 50;
const FAR: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(1);
/// So few that all of them have soon been used.
const SLOTS: u32 = 4;

/// How many blocks `work` allocates or makes larger, in all threads.
fn allocations(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    change.allocations + change.reallocations
}

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// Arms, moves and cancels them one after the other.
fn cancel(wheel: &TimingWheel) {
    let before = wheel.stats();
    for _ in 0..TIMERS {
        let mut sleep = wheel.sleep(FAR);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        Pin::new(&mut sleep).reset(Instant::now() + 2 * FAR);
        Pin::new(&mut sleep).reset(Instant::now() + FAR);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
    }
    let after = wheel.stats();
    assert_eq!(
        (after.armed - before.armed, after.cancelled - before.cancelled),
        (u64::from(TIMERS), u64::from(TIMERS))
    );
}

/// Lets at least so many fire, some at a time.
fn fire(runtime: &Runtime, wheel: &TimingWheel, sleeps: &mut Vec<Sleep>) {
    let before = wheel.stats();
    runtime.block_on(async {
        // Where the machine holds this thread up, some have elapsed before they are first polled, and are not armed.
        while wheel.stats().fired - before.fired < u64::from(TIMERS) {
            // All slots of the first level, and some of the second.
            sleeps.extend((0..AT_A_TIME).map(|n| wheel.sleep(TICK * (2 + n % (SLOTS + 2)))));
            poll_fn(|cx| {
                sleeps.retain_mut(|sleep| poll(sleep, cx.waker()).is_pending());
                if sleeps.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    });
}

/// Whether one of a few runs allocates nothing. The first ones make the wheel warm: a slot, or a batch of what is due, takes
/// memory when it holds more than ever before, which it does where a machine was held up.
fn comes_to_allocate_nothing(mut work: impl FnMut()) -> bool {
    const RUNS: usize = 10;
    (0..RUNS).any(|_| allocations(&mut work) == 0)
}

#[test]
fn a_warm_wheel_allocates_nothing() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1, "allocations are not counted");
    let runtimes = [
        // Its clock goes from one timer to the next.
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap(),
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let _context = runtime.enter();
        let flavor = runtime.handle().runtime_flavor();
        let wheel = TimingWheel::builder().tick(TICK).wheel_size(SLOTS as usize).build().unwrap();
        let mut sleeps = Vec::with_capacity(AT_A_TIME as usize);
        assert!(comes_to_allocate_nothing(|| cancel(&wheel)), "where timers are cancelled, {flavor:?}");
        assert!(
            comes_to_allocate_nothing(|| fire(&runtime, &wheel, &mut sleeps)),
            "where timers fire, {flavor:?}"
        );
    }
}
