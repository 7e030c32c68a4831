//! A wheel that has ended, or whose runtime is gone, ends no request before its time. `model` has full wheels too.

use std::future::pending;

use timingwheel::TimingWheel;
use timingwheel_deadline::{DeadlineExt, Ended};
use tokio::time::{Instant, sleep};
use tokio_test::task;

use crate::{ended, ms};

#[tokio::test(start_paused = true)]
async fn the_end_of_the_wheel_changes_nothing() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let deadline = wheel.deadline_in(ms(10));
    let waits = ended(&deadline);
    sleep(ms(1)).await;
    wheel.shutdown();
    assert_eq!(deadline.run_within(ms(5), pending::<()>()).await, Err(Ended::Limit));
    assert_eq!(start.elapsed(), ms(6));
    assert_eq!(waits.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(10));
}

/// In the second runtime tokio's timers keep the time.
#[test]
fn a_deadline_outlives_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let deadline = first.block_on(async { TimingWheel::new().deadline_in(ms(30)) });
    let mut waits = task::spawn(deadline.ended());
    first.block_on(async { assert!(waits.poll().is_pending()) });
    drop(first);
    assert!(waits.is_woken(), "to wait in another runtime");
    assert_eq!(runtime().block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
    assert!(Instant::now() >= deadline.instant().unwrap());
    assert_eq!(runtime().block_on(waits), Ended::Passed);
}
