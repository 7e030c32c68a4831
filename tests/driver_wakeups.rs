//! How often the driver is woken: when something is due, and not otherwise.
//!
//! On a multi-thread runtime, where those who arm timers need not wake it. Counts are bounded from above; one more
//! than needed is allowed, for a driver that was about to sleep when it was woken.

use std::pin::Pin;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A wheel whose driver has nothing to do.
async fn idle_wheel() -> TimingWheel {
    let wheel = TimingWheel::new();
    wheel.sleep(ms(1)).await;
    tokio::time::sleep(ms(5)).await;
    wheel
}

fn registered(wheel: &TimingWheel, duration: Duration) -> Sleep {
    let mut sleep = wheel.sleep(duration);
    assert_pending!(task::spawn(&mut sleep).poll());
    sleep
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_is_woken_once_for_what_is_due_together() {
    let wheel = idle_wheel().await;
    let before = wheel.stats();
    let deadline = Instant::now() + ms(30);
    let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(wheel.sleep_until(deadline))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let after = wheel.stats();
    assert_eq!(after.fired - before.fired, after.armed - before.armed);
    let wakeups = after.driver_wakeups - before.driver_wakeups;
    assert!(wakeups <= 2, "{wakeups}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_that_are_armed_moved_and_dropped_long_before_their_time_do_not_wake_the_driver() {
    let wheel = idle_wheel().await;
    let before = wheel.stats().driver_wakeups;
    for n in 0..1_000 {
        // Each is earlier than the one before.
        let mut sleep = registered(&wheel, DAY * 2 - ms(n));
        Pin::new(&mut sleep).reset(Instant::now() + DAY);
        Pin::new(&mut sleep).reset(Instant::now() + DAY * 3);
    }
    tokio::time::sleep(ms(20)).await;
    assert!(wheel.stats().driver_wakeups <= before + 1);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_wakes_the_driver_while_timers_are_pending_that_are_not_due() {
    let wheel = idle_wheel().await;
    let _far: Vec<_> = (0..100).map(|n| registered(&wheel, DAY + ms(n))).collect();
    let before = wheel.stats().driver_wakeups;
    tokio::time::sleep(ms(50)).await;
    assert!(wheel.stats().driver_wakeups <= before + 1);
}
