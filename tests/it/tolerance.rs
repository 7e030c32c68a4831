//! Timers that may be late, on the paused clock. `hierarchy_model` tests the greatest lateness, in every mixture.

use std::future;
use std::pin::{Pin, pin};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::ms;

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// On no grid.
pub(crate) async fn odd_time() {
    advance(ms(12_345)).await;
}

pub(crate) fn registered(sleep: Sleep) -> task::Spawn<Sleep> {
    let mut sleep = task::spawn(sleep);
    assert_pending!(sleep.poll());
    sleep
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_of_less_than_two_ticks_is_none() {
    let wheel = TimingWheel::new();
    advance(Duration::from_micros(300)).await;
    for tolerance in [Duration::ZERO, Duration::from_micros(999), Duration::from_micros(1_999)] {
        let delay = Duration::from_micros(30_000_400);
        let sleep = wheel.sleep(delay);
        let deadline = sleep.deadline();
        assert_eq!(sleep.with_tolerance(tolerance).deadline(), deadline);
    }
}

#[tokio::test(start_paused = true)]
async fn tolerant_sleeps_with_near_deadlines_wake_at_the_same_instant_and_never_move() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let tasks: Vec<_> = (0..4_000)
        .map(|n| {
            let sleep = wheel.sleep(secs(60) + ms(n)).with_tolerance(secs(60) / 8);
            let deadline = sleep.deadline();
            tokio::spawn(async move {
                sleep.await;
                assert_eq!(Instant::now(), deadline);
                deadline - start
            })
        })
        .collect();
    let mut instants = Vec::new();
    for task in tasks {
        instants.push(task.await.unwrap());
    }
    instants.dedup();
    assert!(instants.len() <= 2, "{instants:?}");
    assert_eq!((wheel.stats().fired, wheel.stats().cascaded), (4_000, 0));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_may_be_late_and_moved_too() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut call = pin!(wheel.timeout(secs(31), future::pending::<()>()).with_tolerance(secs(31) / 8));
    let deadline = call.deadline();
    assert_eq!(deadline, wheel.sleep(secs(31)).with_tolerance(secs(31) / 8).deadline());
    assert!(call.as_mut().await.is_err());
    assert_eq!(Instant::now(), deadline);
    assert!((ms(31_001)..ms(34_875)).contains(&start.elapsed()));

    call.as_mut().reset_after(secs(10));
    let again = Instant::now();
    assert!(call.await.is_err());
    assert!((secs(10)..ms(13_875)).contains(&again.elapsed()), "it is kept");
}

/// How late a sleep is for a deadline.
fn late(sleep: &Sleep, deadline: Instant) -> Duration {
    sleep.deadline().checked_duration_since(deadline).expect("it is not early")
}

#[tokio::test(start_paused = true)]
async fn a_reset_keeps_the_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    for is_registered in [false, true] {
        let sleep = wheel.sleep(secs(32)).with_tolerance(secs(4));
        let mut sleep = if is_registered { registered(sleep) } else { task::spawn(sleep) };
        for delay in [secs(7), secs(45), secs(3), secs(601)] {
            let exact = Instant::now() + delay;
            Pin::new(&mut *sleep).reset(exact);
            let by_reset = late(&sleep, exact);
            assert!(by_reset > Duration::ZERO && by_reset < secs(4), "{delay:?}: {by_reset:?}");
            sleep.reset_after(delay);
            assert_eq!(late(&sleep, exact), by_reset, "{delay:?}");
        }
        let deadline = sleep.deadline();
        (&mut *sleep).await;
        assert_eq!(Instant::now(), deadline);
        sleep.reset_after(secs(7));
        assert_ne!(late(&sleep, Instant::now() + secs(7)), Duration::ZERO, "after it has come too");
    }
}

#[tokio::test(start_paused = true)]
async fn another_tolerance_takes_the_place_of_the_one_before_and_zero_ends_it() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let sleep = registered(wheel.sleep(secs(32)).with_tolerance(secs(32) / 8));
    let exact = Instant::now() + secs(45);
    let mut sleep = sleep.into_inner().with_tolerance(ms(16));
    Pin::new(&mut sleep).reset(exact);
    assert!(late(&sleep, exact) < ms(16));
    let mut sleep = sleep.with_tolerance(Duration::ZERO);
    Pin::new(&mut sleep).reset(exact);
    assert_eq!(sleep.deadline(), exact);
    Pin::new(&mut sleep).reset(exact + secs(1));
    assert_eq!(sleep.deadline(), exact + secs(1), "exact from now on");
    sleep.await;
    assert_eq!(Instant::now(), exact + secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_reset_to_a_deadline_that_has_passed_is_due_at_once_whatever_the_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = registered(wheel.sleep(secs(30)).with_tolerance(secs(30) / 8));
    for past in [Instant::now(), Instant::now() - secs(1)] {
        Pin::new(&mut *sleep).reset(past);
        assert!(sleep.is_woken());
        assert_ready!(sleep.poll());
        sleep.reset_after(secs(30));
        assert_pending!(sleep.poll());
    }
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_that_was_set_when_the_deadline_had_passed_is_there_for_the_next() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = pin!(wheel.sleep(Duration::ZERO).with_tolerance(secs(4)));
    let start = Instant::now();
    sleep.as_mut().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    sleep.as_mut().reset_after(secs(30));
    assert_ne!(late(&sleep, start + secs(30)), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_was_reset_to_a_later_time_that_has_passed_keeps_its_tolerance() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut sleep = pin!(wheel.sleep(secs(10)).with_tolerance(secs(4)));
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
