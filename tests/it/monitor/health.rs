//! Each limit, seen to hold and to be exceeded.

use std::time::Duration;

use timingwheel::monitor::{Exceeded, Limits, Unhealthy};
use timingwheel::{Stats, TimingWheel};
use tokio::time::advance;

use super::{armed, ms, stuck};

/// Stats that can be set, as a wheel's own cannot.
fn stats(set: impl FnOnce(&mut Stats)) -> Stats {
    let mut stats = Stats::default();
    set(&mut stats);
    stats
}

fn with(set: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits);
    limits
}

fn late(lateness: &[(f64, Duration)]) -> Limits {
    with(|limits| limits.lateness = lateness.to_vec())
}

fn words(unhealthy: Result<(), Unhealthy>) -> String {
    unhealthy.expect_err("a limit is exceeded").to_string()
}

#[tokio::test(start_paused = true)]
async fn a_share_of_timers_that_is_later_than_the_limit_is_unhealthy() {
    let wheel = TimingWheel::new();
    let limits = |quantile| late(&[(quantile, ms(20))]);
    assert_eq!(wheel.health(&limits(1.0)), Ok(()), "none has fired, so none was late");
    let _timers: Vec<_> = (0..9).map(|_| armed(&wheel, ms(10))).collect();
    advance(ms(10)).await;
    let _late = armed(&wheel, ms(10));
    advance(ms(40)).await;
    assert_eq!(wheel.health(&limits(0.9)), Ok(()));
    let unhealthy = wheel.health(&limits(0.95)).unwrap_err();
    assert!(unhealthy.exceeds(Exceeded::Lateness));
    let text = unhealthy.to_string();
    assert!(
        text.starts_with("the timing wheel is not healthy: 95 % of timers were late by up to 3"),
        "{text}"
    );
    assert!(text.ends_with("ms, the limit is 20ms"), "{text}");
    // Both of two.
    let both = late(&[(0.9, ms(20)), (0.95, ms(20)), (1.0, ms(10))]);
    assert_eq!(words(wheel.health(&both)).matches("; ").count(), 1);
    // Everything since then was in time.
    let earlier = wheel.stats();
    let _timer = armed(&wheel, ms(10));
    advance(ms(10)).await;
    assert_eq!(wheel.stats().since(&earlier).check(&limits(1.0)), Ok(()));
}

#[test]
fn what_is_as_late_as_the_limit_is_healthy_and_what_is_a_sixteenth_later_is_not() {
    let limits = late(&[(1.0, ms(5))]);
    // The bucket of 5 ms goes from 4.98 to 5.24 ms.
    for (micros, is_healthy) in [(4_979, true), (5_000, true), (5_242, true), (5_243, false), (5_313, false)]
    {
        let stats = stats(|stats| {
            stats.lateness.record(Duration::from_micros(micros));
        });
        assert_eq!(stats.check(&limits).is_ok(), is_healthy, "{micros}");
    }
    let longest = late(&[(1.0, Duration::MAX)]);
    assert_eq!(stats(|stats| stats.lateness.record(Duration::MAX)).check(&longest), Ok(()));
}

#[test]
fn a_driver_that_is_held_up_for_longer_than_the_limit_is_unhealthy_and_was() {
    let (wheel, _sleep, runtime) = stuck();
    let limits = with(|limits| limits.overdue = Some(ms(10)));
    let unhealthy = wheel.health(&limits).unwrap_err();
    assert!(unhealthy.exceeds(Exceeded::Overdue) && !unhealthy.exceeds(Exceeded::Ended), "{unhealthy}");
    assert!(wheel.stats().overdue >= ms(18));
    runtime.block_on(async {
        while wheel.stats().fired == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(wheel.health(&limits), Ok(()));
    assert_eq!(
        words(wheel.health(&with(|limits| limits.stalls = Some(0)))),
        "the timing wheel is not healthy: 1 turns were late, the limit is 0"
    );
}

#[test]
fn all_that_is_exceeded_is_named_with_its_limit() {
    let stats = stats(|stats| {
        stats.ended = true;
        stats.unwatched = true;
        stats.overdue = ms(300);
        stats.pending = 7;
        stats.refused = 6;
        stats.stalls = 5;
        stats.wakers_panicked = 4;
        // Below 32 ns a histogram is exact.
        stats.lateness.record(Duration::from_nanos(3));
    });
    let none = with(|limits| {
        limits.overdue = Some(Duration::ZERO);
        limits.pending = Some(0);
        limits.refused = Some(0);
        limits.stalls = Some(0);
        limits.wakers_panicked = Some(0);
        limits.lateness = vec![(0.999, Duration::ZERO)];
    });
    assert_eq!(
        words(stats.check(&none)),
        "the timing wheel is not healthy: it has ended; the system gives no thread for its watchdog; \
         it is overdue by 300ms, the limit is 0ns; 7 timers are \
         pending, the limit is 0; 6 timers were refused, the limit is \
         0; 5 turns were late, the limit is 0; 4 wakers panicked, the limit is 0; \
         99.9 % of timers were late by up to 3ns, the limit is 0ns"
    );
    let just_so = with(|limits| {
        limits.overdue = Some(ms(300));
        limits.pending = Some(7);
        limits.refused = Some(6);
        limits.stalls = Some(5);
        limits.wakers_panicked = Some(4);
        limits.lateness = vec![(0.999, Duration::from_nanos(3))];
    });
    assert_eq!(
        words(stats.check(&just_so)),
        "the timing wheel is not healthy: it has ended; the system gives no thread for its watchdog"
    );
}

#[test]
#[should_panic(expected = "quantile must be 0 to 1, got 99")]
fn a_limit_for_a_quantile_in_percent_is_refused() {
    let _ = Stats::default().check(&late(&[(99.0, ms(1))]));
}
