//! One timer for one operation after the other.

use std::future::{pending, ready};

use timingwheel::TimingWheel;
use timingwheel_deadline::{Ended, ReusableDeadline};
use tokio::time::{Instant, advance, sleep};
use tokio_test::task;

use crate::{ms, pending_once};

#[tokio::test(start_paused = true)]
async fn operations_do_not_move_the_timer() {
    let wheel = TimingWheel::new();
    let mut deadline = ReusableDeadline::new(&wheel);
    for _ in 0..1000 {
        deadline.start_in(ms(150));
        deadline.run_in(ms(100), sleep(ms(1))).await.unwrap();
    }
    let armed = wheel.stats().armed;
    assert!(armed <= 11, "{armed}");
}

#[tokio::test(start_paused = true)]
async fn each_operation_ends_at_its_own_deadline() {
    for wheel in [TimingWheel::new(), TimingWheel::builder().max_pending(0).build().unwrap()] {
        let mut deadline = ReusableDeadline::new(&wheel);
        for limit in [50, 10, 100, 1, 100] {
            let start = Instant::now();
            deadline.start_in(ms(limit));
            assert_eq!(deadline.instant(), start + ms(limit));
            assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
            assert_eq!(start.elapsed(), ms(limit));
            assert_eq!(deadline.run_in(ms(1000), pending::<()>()).await, Err(Ended::Passed), "it has passed");
            assert_eq!(start.elapsed(), ms(limit));
            sleep(ms(7)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_shorter_than_the_one_before_ends_in_time() {
    let mut deadline = ReusableDeadline::new(&TimingWheel::new());
    deadline.start_in(ms(1000));
    deadline.run(sleep(ms(1))).await.unwrap();
    let start = Instant::now();
    deadline.start_in(ms(10));
    assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_own_limit_which_begins_when_it_is_pending() {
    for wheel in [TimingWheel::new(), TimingWheel::builder().max_pending(0).build().unwrap()] {
        let mut deadline = ReusableDeadline::new(&wheel);
        assert_eq!(deadline.run_in(ms(20), ready(7)).await, Ok(7));
        deadline.start_in(ms(100));
        let mut call = task::spawn(deadline.run_in(ms(20), pending::<()>()));
        advance(ms(5)).await;
        let start = Instant::now();
        assert!(call.poll().is_pending());
        assert_eq!(call.await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(20));
        // After one that was armed for a call that is gone, and one that is later.
        let dropped = pending_once(deadline.run_in(ms(10), pending::<()>()));
        drop(dropped);
        let start = Instant::now();
        assert_eq!(deadline.run_in(ms(30), pending::<()>()).await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(30));
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_operation_there_is_no_deadline_and_the_end_of_the_wheel_changes_nothing() {
    let wheel = TimingWheel::new();
    let mut deadline = ReusableDeadline::new(&wheel);
    deadline.run(sleep(ms(1_000_000))).await.unwrap();
    let start = Instant::now();
    deadline.start_in(ms(20));
    let waits = pending_once(deadline.run(pending::<()>()));
    wheel.shutdown();
    assert!(waits.is_woken());
    assert_eq!(waits.await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(20));
}

#[test]
fn on_a_full_wheel_a_connection_can_go_to_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let wheel = first.block_on(async { TimingWheel::builder().max_pending(0).build() }).unwrap();
    let mut deadline = ReusableDeadline::new(&wheel);
    deadline.start_in(ms(5));
    assert_eq!(first.block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
    drop(first);
    deadline.start_in(ms(5));
    assert_eq!(second.block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn a_loop_under_a_passed_deadline_lets_other_tasks_run() {
    let mut deadline = ReusableDeadline::new(&TimingWheel::new());
    deadline.start_in(ms(0));
    let other = tokio::spawn(async {});
    while !other.is_finished() {
        assert!(deadline.run(pending::<()>()).await.is_err());
    }
}
