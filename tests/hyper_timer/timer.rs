//! The trait itself.

use std::pin::Pin;
use std::thread;
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use timingwheel::TimingWheel;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::{HOUR, SECOND, assert_nothing_pending};

fn address(sleep: &Pin<Box<dyn Sleep>>) -> *const () {
    std::ptr::from_ref(&**sleep).cast()
}

fn is_ours(sleep: &Pin<Box<dyn Sleep>>) -> bool {
    (**sleep).is::<timingwheel::Sleep>()
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
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_reset_replaces_a_sleep_of_another_timer() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut sleep = TokioTimer::new().sleep(SECOND);
    assert_pending!(task::spawn(sleep.as_mut()).poll());
    assert!(!is_ours(&sleep));
    wheel.reset(&mut sleep, (start + 5 * SECOND).into_std());
    assert!(is_ours(&sleep));
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
async fn with_the_trait_in_scope_the_methods_of_a_wheel_are_its_own() {
    let wheel = TimingWheel::new();
    let ours: [timingwheel::Sleep; 2] = [wheel.sleep(SECOND), wheel.sleep_until(Instant::now())];
    drop(ours);
}
