//! `hyper::rt::Timer` on a wheel. Whole servers and clients are in `crates/recipes/tests/hyper_timer`.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use timingwheel::TimingWheel;
use tokio::runtime;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::{HOUR, SECOND};

fn address(sleep: &Pin<Box<dyn Sleep>>) -> *const () {
    std::ptr::from_ref(&**sleep).cast()
}

/// A wheel that refuses whatever is not due.
fn full() -> TimingWheel {
    TimingWheel::builder().max_pending(0).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn sleeps_are_ready_at_their_deadlines() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    Timer::sleep(&wheel, SECOND).await;
    assert_eq!(start.elapsed(), SECOND);
    Timer::sleep_until(&wheel, (start + 3 * SECOND).into_std()).await;
    assert_eq!(start.elapsed(), 3 * SECOND);
    Timer::sleep_until(&wheel, start.into_std()).await;
    assert_eq!(start.elapsed(), 3 * SECOND, "it had passed");
    assert_eq!(wheel.stats().fired, 2);
}

#[tokio::test(start_paused = true)]
async fn now_is_tokios_clock() {
    let wheel = TimingWheel::new();
    let start = wheel.now();
    assert_eq!(start, Instant::now().into_std());
    thread::sleep(Duration::from_millis(2));
    assert_eq!(wheel.now(), start, "the clock is paused");
    advance(HOUR).await;
    assert_eq!(wheel.now() - start, HOUR);
    wheel.sleep(SECOND).await;
    assert_eq!(wheel.now() - start, HOUR + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_reset_moves_the_same_timer() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut sleep = Timer::sleep(&wheel, SECOND);
    let before = address(&sleep);
    assert_pending!(task::spawn(sleep.as_mut()).poll());
    for n in 1..=100 {
        wheel.reset(&mut sleep, (start + n * SECOND).into_std());
        assert_eq!((wheel.stats().armed, wheel.pending()), (1, 1));
    }
    assert_eq!(address(&sleep), before);
    sleep.as_mut().await;
    assert_eq!(start.elapsed(), 100 * SECOND);

    // It may be moved after it was ready, and to an earlier time.
    wheel.reset(&mut sleep, (start + HOUR).into_std());
    assert_pending!(task::spawn(sleep.as_mut()).poll());
    wheel.reset(&mut sleep, (start + 101 * SECOND).into_std());
    assert_eq!((wheel.stats().armed, wheel.pending()), (2, 1));
    assert_eq!(address(&sleep), before);
    sleep.await;
    assert_eq!(start.elapsed(), 101 * SECOND);
    assert_eq!((wheel.pending(), wheel.stats().fired), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_reset_replaces_a_sleep_of_another_timer() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut sleep = TokioTimer::new().sleep(SECOND);
    assert_pending!(task::spawn(sleep.as_mut()).poll());
    wheel.reset(&mut sleep, (start + 5 * SECOND).into_std());
    assert_pending!(task::spawn(sleep.as_mut()).poll());
    assert_eq!(wheel.pending(), 1);
    sleep.await;
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_of_another_wheel_stays_there() {
    let (wheel, other) = (TimingWheel::new(), TimingWheel::new());
    let mut sleep = Timer::sleep(&other, SECOND);
    wheel.reset(&mut sleep, other.now() + 2 * SECOND);
    let mut sleep = task::spawn(sleep);
    assert_pending!(sleep.poll());
    assert_eq!((wheel.pending(), other.pending()), (0, 1));
    advance(2 * SECOND).await;
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_a_full_wheel_refuses_is_ready_at_its_deadline() {
    let (wheel, start) = (full(), Instant::now());
    Timer::sleep(&wheel, SECOND).await;
    assert_eq!(start.elapsed(), SECOND);
    let mut sleep = task::spawn(Timer::sleep_until(&wheel, (start + 3 * SECOND).into_std()));
    for _ in 0..10 {
        assert_pending!(sleep.poll());
    }
    advance(2 * SECOND).await;
    assert!(sleep.is_woken());
    assert_ready!(sleep.poll());
    assert_ready!(
        Future::poll(Timer::sleep(&wheel, Duration::ZERO).as_mut(), &mut Context::from_waker(Waker::noop())),
        "it was due"
    );
    let stats = wheel.stats();
    assert_eq!((stats.refused, stats.armed, stats.pending), (2, 0, 0), "the wheel is asked once for each");
}

#[test]
fn where_tokio_has_no_timers_a_sleep_panics_only_if_the_wheel_refuses_it() {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
    runtime.block_on(async {
        Timer::sleep(&TimingWheel::new(), Duration::from_millis(1)).await;
        let refused = tokio::spawn(async { Timer::sleep(&full(), SECOND).await });
        let words = refused.await.unwrap_err().into_panic();
        let words =
            words.downcast_ref::<&str>().map(ToString::to_string).or_else(|| words.downcast_ref().cloned());
        assert!(words.unwrap().contains("enable_time"));
    });
}

#[tokio::test(start_paused = true)]
async fn with_the_trait_in_scope_the_methods_of_a_wheel_are_its_own() {
    let wheel = TimingWheel::new();
    let ours: [timingwheel::Sleep; 2] = [wheel.sleep(SECOND), wheel.sleep_until(Instant::now())];
    drop(ours);
}
