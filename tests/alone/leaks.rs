//! Ten thousand wheels are made and dropped, and leave no task, no thread and no memory behind. Two hundred wheels that
//! live at the same time share one thread.

use std::fs;
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::runtime::{Builder, Handle};
use tokio_test::{assert_pending, task};

const HANG_GUARD: Duration = Duration::from_secs(30);

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn resident_pages() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Makes wheels, each with a timer that is dropped, one that is left to the end of its handle, and a shutdown for
/// every third.
async fn make_and_drop(wheels: usize) {
    for n in 0..wheels {
        let wheel = TimingWheel::new();
        let mut sleep = task::spawn(wheel.sleep(Duration::from_secs(3_600)));
        assert_pending!(sleep.poll());
        if n % 3 == 0 {
            wheel.shutdown();
        }
        drop(wheel);
        if n % 2 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Waits until the wheels' tasks and threads are gone.
async fn settled(threads_before: usize) {
    let start = Instant::now();
    while Handle::current().metrics().num_alive_tasks() > 0 || threads() > threads_before {
        let left = (Handle::current().metrics().num_alive_tasks(), threads() - threads_before);
        assert!(start.elapsed() < HANG_GUARD, "tasks and threads left: {left:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn ten_thousand_wheels_leave_no_task_no_thread_and_no_memory() {
    if super::ran_alone(ten_thousand_wheels_leave_no_task_no_thread_and_no_memory) {
        return;
    }
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for runtime in [current, multi] {
        let before = threads();
        runtime.block_on(async {
            let wheels: Vec<_> = (0..200).map(|_| TimingWheel::new()).collect();
            for wheel in &wheels {
                wheel.sleep(Duration::from_millis(1)).await;
            }
            assert!(threads() <= before + 1, "{} threads more for 200 wheels", threads() - before);
            drop(wheels);
            settled(before).await;
            make_and_drop(1_000).await;
            settled(before).await;
            let warm = resident_pages();
            for _ in 0..10 {
                make_and_drop(1_000).await;
                settled(before).await;
            }
            // The empty slots of 10,000 wheels take three times as much.
            let grown = resident_pages().saturating_sub(warm);
            assert!(grown < 2_048, "{grown} pages of memory are left");
        });
    }
}
