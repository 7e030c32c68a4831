//! The watchdog's thread: how often it wakes, and on which processors it may run.

use std::fs;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Runtime};

/// The value of a line of the status of the watchdog's thread.
fn of_watchdog(line: &str) -> String {
    loop {
        // It may be just beginning.
        if let Some(value) = try_of_watchdog(line) {
            return value;
        }
        std::thread::sleep(MILLI);
    }
}

fn try_of_watchdog(line: &str) -> Option<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").map(|task| task.expect("a thread").path());
    let is_it = |name: String| name.trim_end() == "timingwheel-wat";
    let mut found = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(is_it));
    let status = fs::read_to_string(found.next()?.join("status")).expect("it runs");
    assert!(found.next().is_none(), "one thread for the process");
    let value = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    Some(value.expect("each status has it").trim().to_owned())
}

fn wake_ups() -> u64 {
    of_watchdog("voluntary_ctxt_switches").parse().expect("a number")
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Sleeps on a worker, and not on the thread of `block_on`.
fn sleep_on_a_worker(runtime: &Runtime, wheel: &TimingWheel, duration: Duration, times: usize) {
    let wheel = wheel.clone();
    let sleeps = async move {
        for _ in 0..times {
            wheel.sleep(duration).await;
        }
    };
    runtime.block_on(runtime.spawn(sleeps)).expect("no panic");
}

const MILLI: Duration = Duration::from_millis(1);

/// It counts, so the speed of the machine does not matter.
#[test]
fn timers_that_come_in_time_do_not_wake_it_and_a_lone_one_does_once() {
    if super::ran_alone(timers_that_come_in_time_do_not_wake_it_and_a_lone_one_does_once) {
        return;
    }
    const TIMERS: usize = 400;
    const LONE: u64 = 5;
    let runtime = runtime();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    sleep_on_a_worker(&runtime, &wheel, MILLI, 1);
    // Some come late, if the machine has something else to do. So one of a few tries is enough.
    let tries = || {
        let before = wake_ups();
        sleep_on_a_worker(&runtime, &wheel, MILLI, TIMERS);
        wake_ups() - before
    };
    let tries: Vec<_> = (0..5).map(|_| tries()).take_while(|woken| *woken >= TIMERS as u64 / 20).collect();
    assert!(tries.len() < 5, "{tries:?} times for {TIMERS}");
    let before = wake_ups();
    for _ in 0..LONE {
        sleep_on_a_worker(&runtime, &wheel, 50 * MILLI, 1);
        // Until it has looked for the last time.
        std::thread::sleep(30 * MILLI);
    }
    let woken = wake_ups() - before;
    // One more, as the turns before may have left a look.
    assert!(woken <= LONE + 1, "{woken} times for {LONE}");
}

#[test]
fn it_has_the_processors_of_the_process_though_the_worker_that_begins_it_is_bound_to_one() {
    if super::ran_alone(it_has_the_processors_of_the_process_though_the_worker_that_begins_it_is_bound_to_one)
    {
        return;
    }
    let of_first_thread = Some(rustix::process::getpid());
    let all = sched_getaffinity(of_first_thread).expect("a set");
    let one = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("one at least");
    let mut bound = CpuSet::new();
    bound.set(one);
    // All workers, and the thread of the test, which is not the first of the process.
    sched_setaffinity(None, &bound).expect("one of ours");
    let runtime = runtime();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    sleep_on_a_worker(&runtime, &wheel, MILLI, 1);
    let begun = Instant::now();
    let processors = || of_watchdog("Cpus_allowed_list");
    let of_process = fs::read_to_string("/proc/self/status").expect("Linux");
    let expected = of_process.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    while Some(processors().as_str()) != expected.map(str::trim) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}, not {expected:?}", processors());
        std::thread::sleep(MILLI);
    }
}
