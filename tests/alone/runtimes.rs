//! Wheels in runtimes with and without tokio's drivers for I/O and for timers.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Runtime};

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

/// The driver that a wheel needs and the runtime lacks, on a multi-thread and on a current-thread runtime.
const MISSING: [&str; 2] = if cfg!(all(feature = "timerfd", target_os = "linux")) {
    ["enable_io", "enable_time"]
} else {
    ["enable_time"; 2]
};

#[test]
fn a_runtime_needs_the_driver_that_turns_its_wheel_and_tokio_says_so_if_it_is_missing() {
    if super::ran_alone(a_runtime_needs_the_driver_that_turns_its_wheel_and_tokio_says_so_if_it_is_missing) {
        return;
    }
    let reported = Arc::new(AtomicUsize::new(0));
    panic::set_hook({
        let reported = reported.clone();
        Box::new(move |info| {
            eprintln!("{info}");
            reported.fetch_add(1, Ordering::SeqCst);
        })
    });
    let mut refused = 0;
    for (io, time) in [(true, true), (true, false), (false, true), (false, false)] {
        let runtimes = [(multi_thread(1), 0), (multi_thread(2), 0), (Builder::new_current_thread(), 1)];
        for (builder, kind) in runtimes {
            let has_it = if MISSING[kind] == "enable_io" { io } else { time };
            let runtime = runtime(builder, io, time);
            if has_it {
                runtime.block_on(async { TimingWheel::new().sleep(Duration::from_millis(2)).await });
                continue;
            }
            let build = || runtime.block_on(async { TimingWheel::builder().build().map(drop) });
            let words = super::panic_text(build);
            assert!(words.contains(MISSING[kind]), "{io} {time} {kind}: {words}");
            refused += 1;
        }
    }
    // A short tick changes nothing where the clock can be paused, as here.
    let fine = || TimingWheel::builder().tick(Duration::from_micros(100)).build().map(drop);
    runtime(Builder::new_current_thread(), false, true).block_on(async { fine().expect("it has timers") });
    // Nothing is found out by a panic.
    assert_eq!(reported.load(Ordering::SeqCst), refused);
}
