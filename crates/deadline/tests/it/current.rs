//! The current deadline: where there is one, and which.

use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, sleep};

use crate::ms;

fn left() -> Option<std::time::Duration> {
    Deadline::current()?.remaining()
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_current_while_a_future_under_it_is_polled() {
    let request = TimingWheel::new().deadline_in(ms(10));
    assert!(Deadline::current().is_none());
    let nested = async {
        let of_part = request.child_in(ms(5)).run(async { left() }).await;
        (of_part, left())
    };
    assert_eq!(request.run(nested).await, Ok((Ok(Some(ms(5))), Some(ms(10)))));
    assert_eq!(request.scope(async { left() }).await, Some(ms(10)));
    assert!(Deadline::current().is_none());
    let spawned = request.run(async { tokio::spawn(async { left() }).await }).await;
    assert_eq!(spawned.unwrap().unwrap(), None, "a task has its own");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_a_call_is_the_current_deadline_within_it() {
    let request = TimingWheel::new().deadline_in(ms(100));
    let call = request.run_within(ms(30), async {
        sleep(ms(10)).await;
        left()
    });
    assert_eq!(call.await, Ok(Some(ms(20))));
    assert_eq!(request.run_within(ms(300), async { left() }).await, Ok(Some(ms(90))), "and no longer");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_was_asked_for_ends_its_call_by_its_time_and_by_its_cancel() {
    let request = TimingWheel::new().deadline_in(ms(100));
    let start = Instant::now();
    let asks = async || {
        let current = Deadline::current().unwrap();
        sleep(ms(1)).await;
        tokio::spawn(current.run(pending::<()>()));
        pending::<()>().await;
    };
    assert_eq!(request.run_within(ms(30), asks()).await, Err(Ended::Limit));
    assert_eq!(start.elapsed(), ms(30));

    let cancels = async {
        // The call is pending first, and hears the request's token.
        sleep(ms(1)).await;
        let current = Deadline::current().unwrap();
        tokio::spawn(async move {
            sleep(ms(1)).await;
            current.cancel();
        });
        pending::<()>().await;
    };
    assert_eq!(request.run_within(ms(30), cancels).await, Err(Ended::Cancelled));
    assert_eq!(start.elapsed(), ms(32));
    assert!(!request.has_ended());
    let extends = async {
        assert!(Deadline::current().unwrap().extend(ms(50)));
        sleep(ms(40)).await;
    };
    assert_eq!(request.run_within(ms(30), extends).await, Ok(()), "for a call that shows progress");
    let over = request.run_within(ms(60), asks()).await;
    assert_eq!((over, start.elapsed()), (Err(Ended::Passed), ms(100)), "of the request");
}

#[tokio::test(start_paused = true)]
async fn what_is_current_where_a_task_is_spawned_ends_the_task() {
    let request = TimingWheel::new().deadline_in(ms(10));
    let spawns = async { [tokio::spawn(Deadline::run_current(pending::<()>()))] };
    let [task] = request.run(spawns).await.unwrap();
    request.cancel();
    assert_eq!(task.await.unwrap(), Err(Ended::Cancelled));
    assert_eq!(Deadline::run_current(async { 7 }).await, Ok(7), "without one");
}

#[tokio::test(start_paused = true)]
async fn a_scope_alone_bounds_nothing() {
    let request = TimingWheel::new().deadline_in(ms(10));
    request.scope(sleep(ms(20))).await;
    let within = async { request.run(pending::<()>()).await };
    let cancelled = request.child();
    cancelled.cancel();
    assert_eq!(cancelled.scope(within).await, Err(Ended::Passed), "what runs within it ends by its own");
}

#[test]
fn a_future_that_panics_leaves_no_current_deadline_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadline = runtime.block_on(async { TimingWheel::new().deadline_in(ms(10_000)) });
    let panics = deadline.run(async { panic!("in the handler") });
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let _ready = pin!(panics).poll(&mut Context::from_waker(Waker::noop()));
    }));
    assert!(polled.is_err());
    assert!(Deadline::current().is_none());
}

#[test]
fn there_is_none_while_a_thread_ends() {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            assert!(Deadline::current().is_none());
        }
    }
    thread_local!(static ASKS: Cell<Option<Asks>> = const { Cell::new(None) });
    let thread = std::thread::spawn(|| {
        ASKS.set(Some(Asks));
        let _made = Deadline::current();
    });
    thread.join().unwrap();
}
