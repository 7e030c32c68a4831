//! Tests that count what a process allocates or holds, or that change its limits, its hooks or the process itself. Each
//! runs in a process of its own.

// Models take none of this: `tests/cfg_loom.rs` is for builds with that flag.
#![cfg(not(loom))]

mod allocations;
mod delay_queue_allocations;
mod hierarchy_bytes;
#[cfg(target_os = "linux")]
mod kept_runtime;
#[cfg(target_os = "linux")]
mod live_allocations;
#[cfg(all(feature = "timerfd", target_os = "linux"))]
mod process_limits;
mod runtimes;
#[cfg(all(feature = "timerfd", target_os = "linux"))]
mod switches;
#[cfg(all(feature = "timerfd", target_os = "linux"))]
mod watchdog;

use std::alloc::System;
use std::any::type_name;
use std::env;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Set in a process that runs one test.
const ALONE: &str = "TIMINGWHEEL_TEST_ALONE";

/// Runs `test`, the test that calls this, in another process. False in that process, where the test goes on.
fn ran_alone<T: Fn()>(_test: T) -> bool {
    if env::var_os(ALONE).is_some() {
        return false;
    }
    let (_, name) = type_name::<T>().split_once("::").expect("a test in a crate");
    let output = Command::new(env::current_exe().expect("this program"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("it starts");
    let words = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.contains(" 1 passed"), "{name}: {words}{errors}");
    true
}

/// The text of the panic of `f`.
fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    let text = catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    let plain = text.downcast_ref::<&str>().map(ToString::to_string);
    plain.or_else(|| text.downcast_ref().cloned()).expect("a text")
}

/// How many blocks `work` allocates or makes larger, in all threads.
fn allocations(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    change.allocations + change.reallocations
}

/// Whether one of a few runs allocates nothing. The first ones make the wheel or queue warm: a slot, or a batch of what is
/// due, takes memory when it holds more than ever before, which it does where a machine was held up.
fn comes_to_allocate_nothing(mut work: impl FnMut()) -> bool {
    const RUNS: usize = 20;
    // A thread that is just beginning may add some.
    assert!(allocations(|| drop(black_box(Box::new(1)))) > 0, "allocations are not counted");
    (0..RUNS).any(|_| allocations(&mut work) == 0)
}
