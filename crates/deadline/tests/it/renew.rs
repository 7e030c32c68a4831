//! One deadline that begins anew for one operation after the other.

use std::future::{pending, ready};

use timingwheel::TimingWheel;
use timingwheel_deadline::{DeadlineCounters, DeadlineExt, Ended};
use tokio::time::{Instant, advance, sleep};
use tokio_test::task;

use crate::{ms, passed};

#[tokio::test(start_paused = true)]
async fn operations_do_not_move_the_timer() {
    let wheel = TimingWheel::new();
    let mut deadline = wheel.deadline_in(ms(0));
    for _ in 0..1000 {
        deadline.renew_in(ms(150));
        deadline.run_in(ms(100), sleep(ms(1))).await.unwrap();
    }
    let armed = wheel.stats().armed;
    assert!(armed <= 11, "{armed}");
}

#[tokio::test(start_paused = true)]
async fn each_operation_ends_at_its_own_deadline() {
    for wheel in [TimingWheel::new(), TimingWheel::builder().max_pending(0).build().unwrap()] {
        let mut deadline = wheel.deadline_in(ms(0));
        for limit in [50, 10, 100, 1, 100] {
            let start = Instant::now();
            deadline.renew_in(ms(limit));
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
    let mut deadline = TimingWheel::new().deadline_in(ms(1000));
    deadline.run(sleep(ms(1))).await.unwrap();
    let start = Instant::now();
    deadline.renew_in(ms(10));
    assert_eq!(deadline.run(pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_own_limit_which_begins_when_it_is_pending() {
    for wheel in [TimingWheel::new(), TimingWheel::builder().max_pending(0).build().unwrap()] {
        let mut deadline = wheel.deadline_in(ms(1000));
        assert_eq!(deadline.run_in(ms(20), ready(7)).await, Ok(7));
        deadline.renew_in(ms(100));
        let mut call = task::spawn(deadline.run_in(ms(20), pending::<()>()));
        advance(ms(5)).await;
        let start = Instant::now();
        assert!(call.poll().is_pending());
        assert_eq!(call.await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(20));
        // After one that was armed for a call that is gone, and one that is later.
        let mut dropped = task::spawn(deadline.run_in(ms(10), pending::<()>()));
        assert!(dropped.poll().is_pending());
        drop(dropped);
        let start = Instant::now();
        assert_eq!(deadline.run_in(ms(30), pending::<()>()).await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(30));
    }
}

#[tokio::test(start_paused = true)]
async fn clones_and_children_stay_with_the_operation_before() {
    let wheel = TimingWheel::new();
    let mut deadline = wheel.deadline_in(ms(10));
    for is_child in [false, true] {
        let before = if is_child { deadline.child() } else { deadline.clone() };
        let at = before.instant();
        let waits = passed(&before);
        sleep(ms(1)).await;
        deadline.renew_in(ms(100));
        assert_eq!(before.instant(), at);
        deadline.cancel();
        assert!(!before.has_ended());
        assert_eq!(waits.await.unwrap(), Ended::Passed);
        assert_eq!(Instant::now(), at);
        deadline.renew_in(ms(10));
        assert!(!deadline.has_ended(), "it was cancelled before");
    }
    let mut child = deadline.child();
    child.renew_in(ms(50));
    assert_eq!(child.remaining(), ms(50), "no child any more");
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_counted_when_the_next_one_begins() {
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let mut deadline = counters.deadline_in(&wheel, ms(100));
    advance(ms(55)).await;
    deadline.renew_in(ms(100));
    let clone = deadline.clone();
    advance(ms(15)).await;
    deadline.renew_in(ms(0));
    assert_eq!(counters.stats().used, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0], "a clone is there");
    advance(ms(10)).await;
    drop(clone);
    deadline.renew_in(ms(100));
    drop(deadline);
    let stats = counters.stats();
    assert_eq!(stats.used, [1, 0, 1, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(stats.too_late, 1);
}

#[test]
fn on_a_full_wheel_a_connection_can_go_to_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let wheel = first.block_on(async { TimingWheel::builder().max_pending(0).build() }).unwrap();
    let mut deadline = wheel.deadline_in(ms(5));
    assert_eq!(first.block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
    drop(first);
    deadline.renew_in(ms(5));
    assert_eq!(second.block_on(deadline.run(pending::<()>())), Err(Ended::Passed));
}
