//! Threads that have dropped timers keep nothing of the runtime after its end.

use std::fs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Builder;

const THREADS: usize = 20;

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A runtime and a wheel, made, used and dropped.
fn use_a_wheel() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let wheel = {
        let _context = runtime.enter();
        TimingWheel::builder().shards(1).build().unwrap()
    };
    runtime.block_on(wheel.sleep(Duration::from_millis(1)));
}

#[test]
fn a_thread_that_dropped_a_timer_keeps_no_runtime() {
    if super::ran_alone(a_thread_that_dropped_a_timer_keeps_no_runtime) {
        return;
    }
    // Descriptors that the process opens once, for all wheels.
    use_a_wheel();
    let before = open_files();
    let (done, dones) = channel();
    for _ in 0..THREADS {
        let done = done.clone();
        thread::spawn(move || {
            use_a_wheel();
            done.send(()).unwrap();
            thread::park();
        });
    }
    dones.iter().take(THREADS).for_each(drop);
    assert!(open_files() <= before, "{} files are open, of {before} before", open_files());
}
