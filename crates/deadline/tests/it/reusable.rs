//! One timer for one operation after the other.

use std::future::pending;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Ended, ReusableDeadline};
use tokio::time::{Instant, sleep};

use crate::ms;

#[tokio::test(start_paused = true)]
async fn operations_do_not_move_the_timer() {
    let wheel = TimingWheel::new();
    let mut operations = ReusableDeadline::new(&wheel);
    for _ in 0..1000 {
        let deadline = operations.deadline_in(ms(150));
        deadline.run_in(ms(100), sleep(ms(1))).await.unwrap();
    }
    let armed = wheel.stats().armed;
    assert!(armed <= 11, "{armed}");
}

#[tokio::test(start_paused = true)]
async fn each_operation_ends_at_its_own_deadline() {
    let mut operations = ReusableDeadline::new(&TimingWheel::new());
    for limit in [50, 10, 100, 1, 100] {
        let start = Instant::now();
        let deadline = operations.deadline_in(ms(limit));
        assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(limit));
        assert!(deadline.has_ended());
        sleep(ms(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_somebody_holds_is_not_taken_over() {
    let wheel = TimingWheel::new();
    let mut operations = ReusableDeadline::new(&wheel);
    let first = operations.deadline_in(ms(20));
    let waits = tokio::spawn(first.child().passed());
    let second = operations.deadline_in(ms(50));
    second.cancel();
    assert!(!first.has_ended());
    assert_eq!(waits.await.unwrap(), Ended::Passed);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_operation_does_not_end_the_next() {
    let mut operations = ReusableDeadline::new(&TimingWheel::new());
    let first = operations.deadline_in(ms(20));
    first.cancel();
    drop(first);
    let start = Instant::now();
    assert_eq!(operations.deadline_in(ms(30)).passed().await, Ended::Passed);
    assert_eq!(start.elapsed(), ms(30));
}
