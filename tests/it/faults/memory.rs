//! No memory. Rust aborts the process when a vector or a page of timers cannot grow. A bound on pending timers prevents
//! that.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::*;

/// Set for a process that is to arm timers until there is no more memory: its bound, or nothing for none.
const FILLS: &str = "TIMINGWHEEL_TEST_FILLS_MEMORY";
const SIGABRT: i32 = 6;
/// Much more than the timers of a bounded wheel take, and too little for the test's others.
const MEMORY: u64 = 32 << 20;
const BOUND: usize = 50_000;
const TIMERS: usize = 20 * BOUND;

/// Arms timers until there is no more memory, or no more place, or all have been made.
fn fill(max_pending: Option<usize>) {
    setrlimit(Resource::Data, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) }).unwrap();
    let runtime = runtime(0);
    let _guard = runtime.enter();
    let mut builder = TimingWheel::builder();
    if let Some(max_pending) = max_pending {
        builder = builder.max_pending(max_pending);
    }
    let wheel = builder.build().unwrap();
    let mut refused = 0;
    for n in 0..TIMERS {
        match wheel.try_sleep(DAY + ms(n as u64)) {
            // The wheel's part stays.
            Ok(sleep) => std::mem::forget(register(sleep, Waker::noop())),
            Err(error) => refused += usize::from(error.is_at_capacity()),
        }
    }
    assert_eq!(refused, TIMERS - BOUND);
    assert_eq!(assert_adds_up(&wheel).pending, BOUND);
    println!("refused");
}

fn fill_in_another_process(max_pending: &str) -> Output {
    let this_test =
        concat!(module_path!(), "::without_memory_a_process_is_aborted_unless_a_bound_refuses_timers");
    let this_test = this_test.split_once("::").unwrap().1;
    Command::new(env::current_exe().unwrap())
        .args([this_test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FILLS, max_pending)
        .output()
        .unwrap()
}

#[test]
fn without_memory_a_process_is_aborted_unless_a_bound_refuses_timers() {
    if let Ok(max_pending) = env::var(FILLS) {
        return fill(max_pending.parse().ok());
    }
    let Output { status, stderr, .. } = fill_in_another_process("");
    let words = String::from_utf8_lossy(&stderr);
    assert_eq!(status.signal(), Some(SIGABRT), "{status}: {words}");
    assert!(words.contains("memory allocation of"), "{words}");

    let Output { status, stdout, stderr } = fill_in_another_process(&BOUND.to_string());
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    assert!(String::from_utf8_lossy(&stdout).contains("refused"));
}
