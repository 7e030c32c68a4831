//! A wheel that is full, has ended, or whose runtime is gone ends no request before its time.

use std::future::pending;

use timingwheel::TimingWheel;
use timingwheel_deadline::{DeadlineExt, Ended};
use tokio::time::{Instant, sleep};
use tokio_test::task;

use crate::{ended, ms};

#[tokio::test(start_paused = true)]
async fn a_full_wheel_changes_nothing() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let other = wheel.try_sleep(ms(1000)).unwrap();
    let start = Instant::now();
    let deadline = wheel.deadline_in(ms(50));
    let of_child = ended(&deadline.child_in(ms(20)));
    let of_call = tokio::spawn(deadline.run_within(ms(30), pending::<()>()));
    let waits = ended(&deadline);
    let child = deadline.child();
    let cancelled = ended(&child);
    assert_eq!(of_child.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(20));
    child.cancel();
    assert_eq!(cancelled.await.unwrap(), Ended::Cancelled);
    assert_eq!(of_call.await.unwrap(), Err(Ended::Limit));
    assert_eq!(start.elapsed(), ms(30));
    assert!(deadline.extend_to(start + ms(70)));
    assert_eq!(waits.await.unwrap(), Ended::Passed);
    assert_eq!(start.elapsed(), ms(70));
    assert_eq!(wheel.stats().armed, 1, "the other");
    drop(other);
}

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
