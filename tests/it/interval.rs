//! Intervals: when a tick is missed, the grid, errors. On tokio's paused clock. `stream_like_tokio_stream` has the schedule.

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::{Instant, MissedTickBehavior, advance};
use tokio_test::{assert_pending, task};

use crate::panic_place::panic_text;
use crate::{SECOND, ms};

#[tokio::test(start_paused = true)]
async fn a_tick_is_missed_if_it_is_later_than_five_milliseconds_and_than_a_tick_of_the_wheel() {
    for (tick, late, is_missed) in
        [(1, 5, false), (1, 6, true), (100, 50, false), (100, 100, false), (100, 101, true)]
    {
        let wheel = TimingWheel::builder().tick(ms(tick)).build().expect("in range");
        let start = Instant::now();
        let mut interval = wheel.interval(SECOND);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval.tick().await;
        advance(SECOND + ms(late)).await;
        interval.tick().await;
        let schedule = start + SECOND * 2;
        let expected = if is_missed { schedule + ms(late) } else { schedule };
        assert_eq!(interval.tick().await, expected, "a tick of {tick} ms, late by {late} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_began_before_the_wheels_clock_stays_on_its_grid() {
    // Where the platform's clock reaches back so far.
    let Some(start) = Instant::now().checked_sub(Duration::from_secs(3 * 365 * 24 * 60 * 60 + 7)) else {
        return;
    };
    let period = Duration::from_secs(100);
    let mut interval = TimingWheel::new().interval_at(start, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    assert_eq!(interval.tick().await, start);
    for _ in 0..3 {
        let tick = interval.tick().await;
        assert_eq!(((tick - start).as_nanos() % period.as_nanos(), Instant::now()), (0, tick));
    }
}

#[tokio::test(start_paused = true)]
async fn a_period_can_be_changed_from_the_next_tick_on() {
    let start = Instant::now();
    let mut interval = TimingWheel::new().interval(SECOND);
    interval.tick().await;
    interval.set_period(SECOND * 3);
    assert_eq!(interval.period(), SECOND * 3);
    assert_eq!(interval.tick().await, start + SECOND);
    assert_eq!(interval.tick().await, start + SECOND * 4);
}

#[tokio::test]
async fn a_period_of_zero_is_refused() {
    let mut interval = TimingWheel::new().interval(SECOND);
    let made = panic_text(|| drop(TimingWheel::new().interval(Duration::ZERO)));
    let set = panic_text(|| interval.set_period(Duration::ZERO));
    assert_eq!([&*made, &*set], ["interval period must be at least 1ns, got 0ns"; 2]);
}

#[tokio::test(start_paused = true)]
async fn its_debug_form_shows_the_next_tick_and_what_is_set() {
    let interval = TimingWheel::new().interval(SECOND);
    let text = format!("{interval:?}");
    assert!(text.starts_with("Interval { sleep: Sleep { deadline: in "), "{text}");
    assert!(text.ends_with("period: 1s, missed_tick_behavior: Burst }"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_cannot_come_is_an_error_and_a_panic_that_says_why() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let place = wheel.try_sleep(Duration::from_secs(60)).unwrap();
    let mut interval = wheel.interval(Duration::from_secs(1));
    let start = Instant::now();
    assert_eq!(interval.try_tick().await, Ok(start));
    assert!(interval.try_tick().await.unwrap_err().is_at_capacity());
    drop(place);
    assert_eq!(interval.try_tick().await, Ok(start + Duration::from_secs(1)), "no tick is lost");
    wheel.shutdown();
    assert!(interval.try_tick().await.unwrap_err().is_shutdown());
    let panic = tokio::spawn(async move { interval.tick().await }).await.unwrap_err().into_panic();
    let text = panic.downcast::<String>().unwrap();
    assert!(text.starts_with("an `Interval` cannot wait for its next tick: "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_may_be_longer_than_any_clock_counts() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let (wheel, now) = (TimingWheel::new(), Instant::now());
    for (began, period) in [(1_000, 2_000), (1_000, 550), (1_200, 600), (1, 2_000)] {
        // Some systems' clocks reach less far.
        let Some(start) = now.checked_sub(began * YEAR) else { continue };
        let mut interval = wheel.interval_at(start, period * YEAR);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        assert_eq!(interval.tick().await, start);
        assert_pending!(task::spawn(interval.tick()).poll());
        if (began, period) == (1_000, 550) {
            assert_eq!(interval.tick().await, start + 1_100 * YEAR);
        }
    }
}
