//! When a wheel is busy, and how often it is turned then.

use std::time::Duration;

use crate::engine::turn::Pace;
use crate::wheel::{Nanos, Resolution};

const MILLI: Duration = Duration::from_millis(1);

fn micros(micros: u64) -> Nanos {
    Nanos::from_duration(Duration::from_micros(micros))
}

fn not_before(pace: Pace, tick: Duration, now: u64, fired: usize) -> Nanos {
    pace.next_not_before(micros(now), fired, Resolution::new(tick).expect("not zero"))
}

#[test]
fn a_busy_wheel_is_turned_once_in_two_ticks() {
    for now in [10_000, 10_001, 11_000, 11_999] {
        assert_eq!(not_before(Pace::EachTick, MILLI, now, Pace::BUSY), micros(12_000));
    }
    assert_eq!(not_before(Pace::EachTick, MILLI, 12_000, 1_000), micros(14_000));
    assert_eq!(not_before(Pace::EachTick, MILLI / 10, 10_050, Pace::BUSY), micros(10_200));
}

#[test]
fn a_wheel_that_is_not_busy_or_has_a_long_tick_may_be_turned_at_once() {
    assert_eq!(not_before(Pace::EachTick, MILLI, 10_050, Pace::BUSY - 1), Nanos::ZERO);
    assert_eq!(not_before(Pace::EachTick, MILLI * 2, 10_050, 1_000), Nanos::ZERO);
}

#[test]
fn a_turn_that_covers_two_ticks_finds_the_wheel_busy_by_twice_as_many() {
    let pace = Pace::of_this_turn(Some(micros(11_200)), micros(12_000));
    assert_eq!(not_before(pace, MILLI, 12_000, Pace::BUSY * 2 - 1), Nanos::ZERO);
    assert_eq!(not_before(pace, MILLI, 12_000, Pace::BUSY * 2), micros(14_000));
    // It is due later than it had to wait: it covers one tick.
    let pace = Pace::of_this_turn(Some(micros(12_001)), micros(12_000));
    assert_eq!(pace, Pace::EachTick);
}

#[test]
fn a_timer_has_waited_as_long_as_the_turn_is_late_and_a_tick_for_each_that_the_turn_covers() {
    let resolution = Resolution::new(MILLI).expect("not zero");
    let longest_wait = |pace: Pace| pace.longest_wait(micros(11_900), micros(12_000), resolution);
    assert_eq!([Pace::EachTick, Pace::TwoTicks].map(longest_wait), [micros(1_100), micros(2_100)]);
}

/// So a timer with a tolerance is no later on a busy wheel.
#[test]
fn a_busy_wheel_is_turned_at_each_time_to_which_a_tolerance_rounds() {
    for tick in [MILLI, MILLI / 10, MILLI / 1_000, Duration::from_nanos(777_777)] {
        let resolution = Resolution::new(tick).expect("not zero");
        for tolerance in (2..2_000).map(|ticks| tick * ticks) {
            let deadline = micros(250_000).after(Duration::from_nanos(1));
            let point = resolution.round_up_within(deadline, tolerance);
            let before = point.before(Duration::from_nanos(1));
            assert_eq!(
                Pace::EachTick.next_not_before(before, Pace::BUSY, resolution),
                point,
                "{tick:?}, {tolerance:?}"
            );
        }
    }
}
