//! Timers that may be late, on the paused clock. `hierarchy_model` tests the greatest lateness, in every mixture.

use std::future;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel, Tolerance};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::ms;

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn eighth() -> Tolerance {
    Tolerance::share(0.125)
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

/// The lateness of a timer with this delay.
async fn lateness(wheel: &TimingWheel, delay: Duration, tolerance: Tolerance) -> Duration {
    let start = Instant::now();
    wheel.sleep(delay).with_tolerance(tolerance).await;
    start.elapsed().checked_sub(delay).expect("it is not early")
}

#[tokio::test(start_paused = true)]
async fn a_tolerant_sleep_is_never_early_and_late_by_less_than_it_may_be() {
    let wheel = TimingWheel::new();
    for delay in [1, 63, 64, 100, 999, 1_000, 5_003, 30_000, 60_001, 300_000, 86_400_000].map(ms) {
        for share in [0.01, 0.05, 0.125, 0.5, 1.0] {
            let late = lateness(&wheel, delay, Tolerance::share(share)).await;
            assert!(late < delay.mul_f64(share).max(ms(1)), "{delay:?} with {share}: {late:?}");
        }
        for tolerance in [ms(1), ms(20), secs(1), secs(100)] {
            let late = lateness(&wheel, delay, Tolerance::time(tolerance)).await;
            assert!(late < tolerance, "{delay:?} with {tolerance:?}: {late:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_of_less_than_a_tick_is_none() {
    let wheel = TimingWheel::new();
    advance(Duration::from_micros(300)).await;
    for tolerance in
        [Tolerance::time(Duration::from_micros(999)), Tolerance::share(0.0), Tolerance::share(0.000_01)]
    {
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
            let sleep = wheel.sleep(secs(60) + ms(n)).with_tolerance(eighth());
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
async fn the_deadline_is_the_instant_at_which_it_is_ready() {
    let wheel = TimingWheel::new();
    let exact = Instant::now() + secs(31);
    let mut sleep = registered(wheel.sleep_until(exact).with_tolerance(eighth()));
    let deadline = sleep.deadline();
    assert!(deadline > exact, "31 s from a wheel's beginning lie on no grid of 2 s");
    advance(deadline - Instant::now() - ms(1)).await;
    assert!(!sleep.is_woken() && !sleep.is_elapsed());
    assert_pending!(sleep.poll());
    advance(ms(1)).await;
    assert!(sleep.is_woken() && sleep.is_elapsed());
    assert_ready!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn zero_and_past_deadlines_stay_as_they_are() {
    let wheel = TimingWheel::new();
    advance(secs(100)).await;
    let now = Instant::now();
    for deadline in [now, now - secs(50), now - secs(101)] {
        assert_ready!(
            task::spawn(wheel.sleep_until(deadline).with_tolerance(Tolerance::time(secs(60)))).poll()
        );
    }
    assert_ready!(task::spawn(wheel.sleep(Duration::ZERO).with_tolerance(Tolerance::time(secs(60)))).poll());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_has_elapsed_stays_so_whatever_its_tolerance() {
    let wheel = TimingWheel::new();
    let mut sleep = wheel.sleep(ms(5));
    (&mut sleep).await;
    let sleep = sleep.with_tolerance(Tolerance::time(secs(60)));
    assert!(sleep.is_elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sleep_for_ever_with_a_tolerance_is_for_ever() {
    let wheel = TimingWheel::new();
    let mut sleep = registered(wheel.sleep(Duration::MAX).with_tolerance(eighth()));
    advance(secs(1_000_000_000)).await;
    assert_pending!(sleep.poll());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_over_the_deadline_before_the_first_poll_is_seen() {
    let wheel = TimingWheel::new();
    // The second is less than a tick, so none.
    let tolerances = [eighth(), Tolerance::time(Duration::ZERO)];
    let sleeps = tolerances.map(|tolerance| wheel.sleep(secs(30)).with_tolerance(tolerance));
    advance(secs(60)).await;
    for sleep in sleeps {
        assert_ready!(task::spawn(sleep).poll());
    }
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_reset_again_and_again_ends_when_it_falls_silent() {
    let wheel = TimingWheel::new();
    let mut idle = registered(wheel.sleep(secs(60)).with_tolerance(eighth()));
    for _ in 0..100 {
        advance(secs(7)).await;
        assert_pending!(idle.poll());
        Pin::new(&mut *idle).reset_after(secs(60));
    }
    // It is found in its place each time that this comes up, not for each reset.
    assert!(wheel.stats().cascaded <= 700 / 60 + 1, "{:?}", wheel.stats());
    let silent = Instant::now();
    idle.await;
    assert!((secs(60)..ms(67_500)).contains(&silent.elapsed()));
    assert_eq!((wheel.stats().armed, wheel.stats().fired), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn reset_to_a_deadline_that_has_passed_wakes_the_task() {
    let wheel = TimingWheel::new();
    advance(secs(10)).await;
    let mut sleep = registered(wheel.sleep(secs(30)).with_tolerance(eighth()));
    Pin::new(&mut *sleep).reset_with_tolerance(Instant::now() - secs(1), Tolerance::time(secs(30)));
    assert!(sleep.is_woken());
    assert_ready!(sleep.poll());
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_moved_to_an_earlier_deadline_with_a_tolerance_wakes_its_task_then() {
    let wheel = TimingWheel::new();
    let mut sleep = registered(wheel.sleep(secs(600)).with_tolerance(eighth()));
    tokio::task::yield_now().await;
    let start = Instant::now();
    Pin::new(&mut *sleep).reset_with_tolerance(start + secs(10), eighth());
    sleep.await;
    assert!((secs(10)..ms(11_250)).contains(&start.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_registered_already_can_get_a_tolerance() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let sleep = wheel.try_sleep(secs(30)).unwrap().with_tolerance(eighth());
    assert_eq!(wheel.pending(), 1);
    let deadline = sleep.deadline();
    sleep.await;
    assert_eq!(Instant::now(), deadline);
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tolerant_sleep_that_is_dropped_leaves_nothing_behind() {
    let wheel = TimingWheel::new();
    let sleep = registered(wheel.sleep(secs(31)).with_tolerance(eighth()));
    // Past the deadline that was asked for, and not the one that it was rounded to.
    advance(secs(31)).await;
    assert_eq!(wheel.pending(), 1);
    drop(sleep);
    assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_may_be_late_and_moved_too() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut call = pin!(wheel.timeout(secs(31), future::pending::<()>()).with_tolerance(eighth()));
    let deadline = call.deadline();
    assert_eq!(deadline, wheel.sleep(secs(31)).with_tolerance(eighth()).deadline());
    assert!(call.as_mut().await.is_err());
    assert_eq!(Instant::now(), deadline);
    assert!((ms(31_001)..ms(34_875)).contains(&start.elapsed()));

    call.as_mut().reset_after(secs(10));
    let again = Instant::now();
    assert!(call.await.is_err());
    assert!((secs(10)..ms(13_875)).contains(&again.elapsed()), "the time that the share came to is kept");
}

#[test]
fn a_share_beyond_its_limits_is_refused_by_name() {
    for (share, name) in [(-0.5, "-0.5"), (1.01, "1.01"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let text = format!("tolerance share must be 0 to 1, got {name}");
        let panic = catch_unwind(|| Tolerance::share(share)).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>(), Some(&text));
    }
    let _least_and_most = [0.0, 1.0].map(Tolerance::share);
}

/// Where those who arm timers do not wake the driver themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tolerant_timers_of_all_workers_fire_on_the_real_clock() {
    let wheel = TimingWheel::new();
    let tasks: Vec<_> = (0..1_000)
        .map(|n| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                let (start, delay) = (Instant::now(), ms(100 + n % 100));
                wheel.sleep(delay).with_tolerance(eighth()).await;
                assert!(start.elapsed() >= delay);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((wheel.stats().fired, wheel.stats().cascaded), (1_000, 0));
}
