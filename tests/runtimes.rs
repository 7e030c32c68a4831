//! Wheels in runtimes with and without what tokio calls drivers: for I/O and for timers.
//!
//! One test that looks at the process's panic hook, alone in its process.

use std::panic::{self, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::{BuildError, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const TIMERS: u64 = 50;

fn runtime(mut builder: Builder, io: bool, time: bool) -> Runtime {
    if io {
        builder.enable_io();
    }
    if time {
        builder.enable_time();
    }
    builder.build().expect("a runtime")
}

fn multi_thread(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers);
    builder
}

/// Timers that are made and awaited in tasks, each earlier than the one before.
async fn timers_fire() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let tasks: Vec<_> = (0..TIMERS)
        .map(|n| {
            let deadline = start + Duration::from_micros(500 * (TIMERS - n));
            let wheel = wheel.clone();
            tokio::spawn(async move {
                wheel.sleep_until(deadline).await;
                assert!(Instant::now() >= deadline);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no timer is early");
    }
    // One by one, with nothing else to do.
    for _ in 0..5 {
        wheel.sleep(Duration::from_millis(2)).await;
    }
    assert!(wheel.stats().fired > 0, "no timer reached the wheel");
}

#[test]
fn whatever_drivers_a_runtime_has_timers_fire_and_nothing_is_reported() {
    let reported = Arc::new(AtomicUsize::new(0));
    let before = panic::take_hook();
    panic::set_hook({
        let reported = reported.clone();
        Box::new(move |info| {
            reported.fetch_add(1, Ordering::SeqCst);
            before(info);
        })
    });
    for (io, time) in [(true, true), (true, false), (false, true), (false, false)] {
        for workers in [1, 2] {
            runtime(multi_thread(workers), io, time).block_on(timers_fire());
        }
        let current_thread = runtime(Builder::new_current_thread(), io, time);
        if time {
            current_thread.block_on(timers_fire());
        } else {
            let error = current_thread.block_on(async { TimingWheel::builder().build() }).unwrap_err();
            assert!(matches!(error, BuildError::NoTimers));
        }
    }
    assert_eq!(reported.load(Ordering::SeqCst), 0, "a panic of tokio's was reported");
    // Those of others still are.
    assert!(catch_unwind(|| panic!("reported, as it should be")).is_err());
    assert_eq!(reported.load(Ordering::SeqCst), 1);
}
