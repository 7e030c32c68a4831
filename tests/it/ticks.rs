//! Deadlines and ticks: timers that share a tick, the farthest deadlines, and nothing early.

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::{DAY, ms};

#[tokio::test(start_paused = true)]
async fn an_odd_duration_rounds_up_to_tokios_millisecond_on_a_paused_clock() {
    let wheel = TimingWheel::new();
    for (nanos, millis) in [(1, 1), (999_999, 1), (1_000_001, 2), (63_500_000, 64), (4_096_000_001, 4_097)] {
        let start = Instant::now();
        wheel.sleep(Duration::from_nanos(nanos)).await;
        assert_eq!(start.elapsed(), ms(millis), "a sleep of {nanos} ns");
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_within_one_tick_are_reached_together_at_the_last_of_them() {
    let wheel = TimingWheel::builder().tick(Duration::from_secs(1)).build().unwrap();
    let start = Instant::now();
    let sleep = |millis| {
        let sleep = wheel.sleep_until(start + ms(millis));
        tokio::spawn(async move {
            sleep.await;
            start.elapsed()
        })
    };
    let tasks = [300, 1_800, 1_200, 2_000, 2_001].map(sleep);
    let mut woken = Vec::new();
    for task in tasks {
        woken.push(task.await.unwrap());
    }
    assert_eq!(woken, [300, 2_000, 2_000, 2_000, 2_001].map(ms));
}

/// The clock stands in the middle of a tick that the driver has begun, and that holds deadlines on both sides.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_in_a_tick_that_is_not_over_has_elapsed_and_can_be_dropped() {
    let wheel = TimingWheel::builder().tick(Duration::from_secs(1)).build().unwrap();
    let mut sleeps = [500, 1_200, 1_300, 1_800].map(|millis| task::spawn(wheel.sleep(ms(millis))));
    for sleep in &mut sleeps {
        assert_pending!(sleep.poll());
    }
    advance(ms(1_500)).await;
    let [_first, polled, dropped, last] = &mut sleeps;
    assert_eq!(wheel.pending(), 3);
    assert_ready!(polled.poll());
    assert_eq!((wheel.pending(), wheel.stats().fired), (2, 2));
    *dropped = task::spawn(wheel.sleep(DAY));
    assert_eq!((wheel.pending(), wheel.stats().cancelled), (1, 1));
    assert_pending!(last.poll());
    advance(ms(300)).await;
    assert_ready!(last.poll());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_beyond_what_the_wheel_can_count_is_never_reached() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let endless = [wheel.sleep(Duration::MAX), wheel.sleep(DAY * 366 * 293), wheel.sleep(DAY * 366 * 1_000)];
    let mut endless = endless.map(task::spawn);
    for sleep in &mut endless {
        assert_pending!(sleep.poll());
        assert!(sleep.deadline() > start + DAY * 365 * 291);
    }
    wheel.sleep(DAY * 365 * 290).await;
    assert_eq!(start.elapsed(), DAY * 365 * 290);
    for sleep in &mut endless {
        assert!(!sleep.is_woken());
        assert_pending!(sleep.poll());
    }
    assert_eq!(wheel.pending(), 3);
}

/// As many timers in a tick make a wheel busy where the clock cannot be paused.
#[tokio::test(start_paused = true)]
async fn where_very_many_fire_in_each_tick_none_waits_for_the_next() {
    const MANY: usize = 200;
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let tasks: Vec<_> = (1..=6)
        .flat_map(|n| std::iter::repeat_n(ms(n), MANY))
        .map(|delay| {
            let sleep = wheel.sleep_until(start + delay);
            tokio::spawn(async move {
                sleep.await;
                assert_eq!(start.elapsed(), delay);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
