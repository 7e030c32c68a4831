//! A sleep keeps its tolerance when it is reset.

use std::pin::{Pin, pin};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel, Tolerance};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::tolerance::{eighth, odd_time, registered, secs};

/// How late a sleep is for a deadline.
fn late(sleep: &Sleep, deadline: Instant) -> Duration {
    sleep.deadline().checked_duration_since(deadline).expect("it is not early")
}

#[tokio::test(start_paused = true)]
async fn a_reset_keeps_the_tolerance_as_the_time_that_it_came_to() {
    let wheel = TimingWheel::new();
    odd_time().await;
    for tolerance in [eighth(), Tolerance::time(secs(4))] {
        for is_registered in [false, true] {
            let sleep = wheel.sleep(secs(32)).with_tolerance(tolerance);
            let mut sleep = if is_registered { registered(sleep) } else { task::spawn(sleep) };
            for delay in [secs(7), secs(45), secs(3), secs(601)] {
                let exact = Instant::now() + delay;
                Pin::new(&mut *sleep).reset(exact);
                let by_reset = late(&sleep, exact);
                assert!(by_reset > Duration::ZERO && by_reset < secs(4), "{delay:?}: {by_reset:?}");
                Pin::new(&mut *sleep).reset_after(delay);
                assert_eq!(late(&sleep, exact), by_reset, "{delay:?}");
            }
            let deadline = sleep.deadline();
            (&mut *sleep).await;
            assert_eq!(Instant::now(), deadline);
            Pin::new(&mut *sleep).reset_after(secs(7));
            assert_ne!(late(&sleep, Instant::now() + secs(7)), Duration::ZERO, "after it has come too");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_tolerance_takes_the_place_of_the_one_before_and_zero_ends_it() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = registered(wheel.sleep(secs(32)).with_tolerance(eighth()));
    let exact = Instant::now() + secs(45);
    Pin::new(&mut *sleep).reset_with_tolerance(exact, Tolerance::time(Duration::from_millis(16)));
    Pin::new(&mut *sleep).reset(exact);
    assert!(late(&sleep, exact) < Duration::from_millis(16));
    Pin::new(&mut *sleep).reset_with_tolerance(exact, Tolerance::time(Duration::ZERO));
    assert_eq!(sleep.deadline(), exact);
    Pin::new(&mut *sleep).reset(exact + secs(1));
    assert_eq!(sleep.deadline(), exact + secs(1), "exact from now on");
    sleep.await;
    assert_eq!(Instant::now(), exact + secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_reset_to_a_deadline_that_has_passed_is_due_at_once_whatever_the_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = registered(wheel.sleep(secs(30)).with_tolerance(eighth()));
    for past in [Instant::now(), Instant::now() - secs(1)] {
        Pin::new(&mut *sleep).reset(past);
        assert!(sleep.is_woken());
        assert_ready!(sleep.poll());
        Pin::new(&mut *sleep).reset_after(secs(30));
        assert_pending!(sleep.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_that_was_set_when_the_deadline_had_passed_is_there_for_the_next() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = pin!(wheel.sleep(Duration::ZERO).with_tolerance(Tolerance::time(secs(4))));
    let start = Instant::now();
    sleep.as_mut().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    sleep.as_mut().reset_after(secs(30));
    assert_ne!(late(&sleep, start + secs(30)), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_moved_keeps_its_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut call = pin!(wheel.timeout(secs(32), std::future::pending::<()>()).with_tolerance(eighth()));
    let exact = Instant::now() + secs(45);
    call.as_mut().reset(exact);
    let deadline = call.deadline();
    assert!(deadline > exact && deadline < exact + secs(4));
    assert!(call.await.is_err());
    assert_eq!(Instant::now(), deadline);
}

#[tokio::test(start_paused = true)]
async fn a_tolerant_sleep_is_polled_again_by_its_task_and_by_another() {
    let wheel = TimingWheel::new();
    let mut sleep = wheel.sleep(secs(30)).with_tolerance(eighth());
    let (mut first, mut second) = (task::spawn(()), task::spawn(()));
    for _ in 0..2 {
        assert_pending!(first.enter(|cx, _| sleep.poll_unconstrained(cx)));
    }
    assert_pending!(second.enter(|cx, _| sleep.poll_unconstrained(cx)));
    advance(secs(34)).await;
    assert!(!first.is_woken() && second.is_woken());
    assert_eq!(wheel.stats().armed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_reset_to_a_later_time_that_has_passed_keeps_its_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = pin!(wheel.sleep(secs(10)).with_tolerance(Tolerance::time(secs(4))));
    sleep.as_mut().await;
    advance(secs(20)).await;
    // As whoever adds periods to the last deadline, after a stall.
    let next = sleep.deadline() + secs(5);
    sleep.as_mut().reset(next);
    sleep.as_mut().await;
    let exact = Instant::now() + secs(30);
    sleep.as_mut().reset(exact);
    let deadline = sleep.deadline();
    assert!(deadline > exact && deadline < exact + secs(4));
}
