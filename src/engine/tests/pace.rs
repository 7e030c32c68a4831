//! When a wheel is busy, and how often it is turned then.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::engine::turn::{Pace, TURNS_IN_TIME, note_in_time};
use crate::wheel::{Nanos, Resolution};

const MILLI: Duration = Duration::from_millis(1);

fn micros(micros: u64) -> Nanos {
    Nanos::from_duration(Duration::from_micros(micros))
}

fn not_before(pace: Pace, tick: Duration, now: u64, fired: usize) -> Nanos {
    pace.next_not_before(micros(now), fired, false, Resolution::new(tick).expect("not zero"))
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
fn a_timer_may_have_waited_for_a_tick_more_than_the_alarm_of_a_busy_wheel_knows() {
    let resolution = Resolution::new(MILLI).expect("not zero");
    let due_since = |due, not_before| {
        let due = micros(due);
        Pace::of_this_turn(Some(due), micros(not_before)).due_since(due, resolution)
    };
    assert_eq!(due_since(11_900, 12_000), micros(11_000));
    assert_eq!(due_since(10_700, 12_000), micros(10_700));
    assert_eq!(due_since(20_000, 12_000), micros(20_000));
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
                Pace::EachTick.next_not_before(before, Pace::BUSY, false, resolution),
                point,
                "{tick:?}, {tolerance:?}"
            );
        }
    }
}

#[test]
fn on_an_idle_runtime_a_wheel_is_busy_with_fewer_timers() {
    let resolution = Resolution::new(MILLI).expect("not zero");
    let not_before =
        |pace: Pace, fired| pace.next_not_before(micros(12_000), fired, true, resolution) > Nanos::ZERO;
    let second = Pace::TwoTicks(micros(12_000));
    assert_eq!(
        [Pace::BUSY_IF_IDLE - 1, Pace::BUSY_IF_IDLE].map(|fired| not_before(Pace::EachTick, fired)),
        [false, true]
    );
    assert_eq!(
        [2 * Pace::BUSY_IF_IDLE - 1, 2 * Pace::BUSY_IF_IDLE].map(|fired| not_before(second, fired)),
        [false, true]
    );
}

#[test]
fn a_runtime_is_idle_after_enough_turns_in_time_and_not_after_a_late_one() {
    let turns = AtomicU32::new(0);
    let note = |late: u64| note_in_time(&turns, Some(micros(10_000)), micros(10_000 + late));
    let note_not_due = || [None, Some(micros(10_001))].map(|due| note_in_time(&turns, due, micros(10_000)));
    for late in [151, 1_000_000] {
        assert!(!note(late));
        assert!((0..TURNS_IN_TIME).all(|_| note_not_due() == [false; 2]));
        assert!((1..TURNS_IN_TIME).all(|_| !note(150)));
        assert!(note(0) && note(150));
        assert_eq!(note_not_due(), [true; 2]);
    }
}
