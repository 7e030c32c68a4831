//! `Timeout`: which of the future and the deadline wins, what the error says, what is left behind.

use std::future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::FusedFuture;
use timingwheel::{FutureTimeExt, TimingWheel};
use tokio::task::coop;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready_err, assert_ready_ok, task};

use crate::panic_place::panic_in;
use crate::streams::spend_budget;
use crate::{DAY, ms, runtime};

#[tokio::test(start_paused = true)]
async fn a_future_that_is_ready_at_once_never_touches_the_wheel() {
    let wheel = TimingWheel::new();
    advance(ms(10)).await;
    let past = Instant::now() - ms(1);
    assert_eq!(wheel.timeout(ms(10), async { 1 }).await, Ok(1));
    assert_eq!(wheel.timeout(Duration::ZERO, async { 2 }).await, Ok(2));
    assert_eq!(wheel.timeout_at(past, async { 3 }).await, Ok(3));
    assert_eq!(wheel.timeout(Duration::MAX, async { 4 }).await, Ok(4));
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_becomes_ready_together_with_the_deadline_wins() {
    let wheel = TimingWheel::new();
    let mut call = task::spawn(wheel.timeout(ms(10), wheel.sleep(ms(10))));
    assert_pending!(call.poll());
    advance(ms(10)).await;
    assert_ready_ok!(call.poll());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_deadline() {
    let wheel = TimingWheel::new();
    let busy = future::poll_fn(|cx| {
        spend_budget(cx);
        Poll::<()>::Pending
    });
    let mut call = task::spawn(wheel.timeout(ms(10), busy));
    assert_pending!(call.poll());
    advance(ms(10)).await;
    assert!(coop::has_budget_remaining());
    assert_ready_err!(call.poll());
}

#[tokio::test(start_paused = true)]
async fn an_elapsed_timeout_waits_when_the_budget_was_spent_before_it() {
    let wheel = TimingWheel::new();
    let mut call = task::spawn(wheel.timeout(Duration::ZERO, future::pending::<()>()));
    future::poll_fn(|cx| {
        spend_budget(cx);
        Poll::Ready(())
    })
    .await;
    assert_pending!(call.poll());
    assert!(!call.is_terminated());
    tokio::task::yield_now().await;
    assert_ready_err!(call.poll());
}

#[tokio::test(start_paused = true)]
async fn the_future_can_be_looked_at_changed_and_taken_out() {
    let wheel = TimingWheel::new();
    let mut call = wheel.timeout(ms(10), wheel.sleep(ms(20)));
    assert_eq!(call.get_ref().deadline(), Instant::now() + ms(20));
    *call.get_mut() = wheel.sleep(ms(30));
    assert_eq!(call.deadline(), Instant::now() + ms(10));
    assert_pending!(task::spawn(&mut call).poll());
    assert_eq!(wheel.pending(), 2);
    let start = Instant::now();
    std::pin::Pin::new(&mut call).get_pin_mut().reset(Instant::now() + ms(30));
    let inner = call.into_inner();
    assert_eq!(wheel.pending(), 1);
    inner.await;
    assert_eq!(start.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_has_elapsed_can_be_given_more_time() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut call = pin!(wheel.timeout(ms(10), wheel.sleep(ms(25))));
    assert!(!call.is_terminated());
    for round in 1..=2 {
        assert!(call.as_mut().await.is_err());
        assert!(call.is_terminated());
        assert_eq!(start.elapsed(), ms(10) * round);
        call.as_mut().reset(start + ms(10) * (round + 1));
        assert!(!call.is_terminated());
    }
    assert!(call.as_mut().await.is_ok());
    assert!(call.is_terminated());
    assert_eq!(start.elapsed(), ms(25));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_whose_future_has_returned_stays_terminated_when_it_is_moved() {
    let wheel = TimingWheel::new();
    let mut call = pin!(wheel.timeout(ms(10), async {}));
    assert_eq!(call.as_mut().await, Ok(()));
    call.as_mut().reset(Instant::now() + ms(10));
    assert!(call.is_terminated(), "the future within must not be polled again");
}

#[derive(Debug)]
struct Request(u32);

impl IntoFuture for Request {
    type Output = u32;
    type IntoFuture = future::Ready<u32>;

    fn into_future(self) -> Self::IntoFuture {
        future::ready(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_be_turned_into_a_future_can_be_timed() {
    let wheel = TimingWheel::new();
    assert_eq!(wheel.timeout(ms(1), Request(1)).await, Ok(1));
    assert_eq!(wheel.timeout_at(Instant::now(), Request(2)).await, Ok(2));
    assert_eq!(wheel.try_sleep(ms(1)).unwrap().limiting(Request(3)).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn its_debug_form_shows_what_is_in_it() {
    let text = format!("{:?}", TimingWheel::new().timeout(ms(1), future::ready(7)));
    assert!(text.starts_with("Timeout { future: Ready(Some(7)), deadline: Sleep { "), "{text}");
    assert!(text.ends_with("state: Waiting }"), "{text}");
}

#[test]
fn on_a_plain_thread_a_timeout_that_its_wheel_cannot_run_panics_with_the_wheels_name_at_the_callers_line() {
    let runtime = runtime(1);
    for (ends, why) in [(false, "is full (max_pending = 0)"), (true, "has ended")] {
        let wheel = {
            let _entered = runtime.enter();
            TimingWheel::builder().name("calls").max_pending(0).build().unwrap()
        };
        if ends {
            wheel.shutdown();
        }
        assert_eq!(
            assert_ready_ok!(task::spawn(wheel.timeout(DAY, async { 1 })).poll()),
            1,
            "it does not have to wait"
        );
        assert_ready_err!(task::spawn(wheel.timeout(Duration::ZERO, future::pending::<()>())).poll());
        let call = async { wheel.timeout(DAY, future::pending::<()>()).await };
        let panic = panic_in(|| task::spawn(call).poll()).unwrap();
        assert_eq!((&*panic.file, panic.line), (file!(), line!() - 2));
        for text in ["on the wheel `calls` cannot wait", why, "not within a tokio runtime"] {
            assert!(panic.text.contains(text), "{panic:?}");
        }
    }
}

/// By one of tokio's timers, because the wheel is full.
async fn is_pending_by_tokio(call: std::pin::Pin<&mut timingwheel::Timeout<future::Pending<()>>>) {
    let mut call = task::spawn(call);
    assert_pending!(call.poll());
}

#[test]
fn a_timeout_that_its_wheel_cannot_run_outlives_each_runtime_that_its_task_has_left() {
    let (home, visited) = (runtime(1), runtime(1));
    let wheel = {
        let _entered = home.enter();
        TimingWheel::builder().max_pending(0).build().unwrap()
    };
    let start = Instant::now();
    let mut call = pin!(wheel.timeout(ms(50), future::pending::<()>()));
    visited.block_on(is_pending_by_tokio(call.as_mut()));
    drop(visited);
    assert!(home.block_on(call).is_err());
    assert!(start.elapsed() >= ms(50));
}

#[tokio::test]
async fn a_timeout_that_waits_by_tokios_timer_is_moved_though_its_waker_panics() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as it is woken");
        }
    }
    let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
    let mut call = pin!(wheel.timeout(ms(50), future::pending::<()>()));
    let waker = Arc::new(Panics).into();
    assert_pending!(call.as_mut().poll(&mut std::task::Context::from_waker(&waker)));
    let to = Instant::now() + DAY;
    assert!(panic_in(|| call.as_mut().reset(to)).is_some());
    assert_eq!(call.deadline(), to);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_a_chain_of_calls_a_timeout_stands_on_the_wheel_that_is_named() {
    let (wheel, other) = (TimingWheel::new(), TimingWheel::new());
    let start = Instant::now();
    assert!(future::pending::<()>().timeout_on(&wheel, ms(3)).await.is_err());
    assert_eq!(start.elapsed(), ms(3));
    assert!(future::pending::<()>().timeout_at_on(&wheel, start + ms(6)).await.is_err());
    assert_eq!(start.elapsed(), ms(6));
    assert_eq!((wheel.stats().fired, other.stats().armed), (2, 0));
}
