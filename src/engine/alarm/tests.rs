//! For when the alarm is set, after what turners and inserters have asked for.

use std::time::Duration;

use super::*;

fn alarm() -> (Alarm, Clock) {
    let clock = Clock::start();
    (Alarm::new(clock, false, 1, Counters::of("alone".into())), clock)
}

const HOUR: Duration = Duration::from_secs(60 * 60);

#[test]
fn a_turn_was_to_be_made_when_it_was_armed_for_and_not_before_it_was_asked_for() {
    let (alarm, clock) = alarm();
    assert_eq!(alarm.begin_turn(), None, "the alarm was not set");
    let hour = clock.now().after(HOUR);
    assert!(!alarm.set_next_turn(hour, Nanos::ZERO));
    assert_eq!(alarm.begin_turn(), Some(hour));
    assert_eq!(alarm.begin_turn(), None, "another turner has begun it");
    let asked_at = clock.now();
    alarm.set_next_turn(Nanos(1), Nanos::ZERO);
    assert!(alarm.begin_turn().is_some_and(|due| due >= asked_at));
}

#[test]
fn the_first_that_is_earlier_sets_its_time_and_the_next_half_of_what_is_left() {
    let (alarm, clock) = alarm();
    alarm.set_next_turn(Nanos::MAX, Nanos::ZERO);
    let now = clock.now();
    let next_turn = || Nanos(alarm.next_turn.load(Ordering::Relaxed));
    alarm.request(now.after(HOUR * 4));
    assert_eq!(next_turn(), now.after(HOUR * 4));
    alarm.request(now.after(HOUR * 5));
    assert_eq!(next_turn(), now.after(HOUR * 4), "it is later");
    alarm.request(now.after(HOUR * 3));
    let half = next_turn();
    assert!(half >= now.after(HOUR * 3 / 2) && half < now.after(HOUR * 2), "{half:?}");
    alarm.request(now.after(HOUR * 2));
    assert_eq!(next_turn(), half, "a row of timers needs no more");
    alarm.request(Nanos(1));
    assert!(next_turn() <= Nanos(1));
    // A turn begins anew.
    alarm.set_next_turn(now.after(HOUR * 4), Nanos::ZERO);
    alarm.request(now.after(HOUR * 3));
    assert_eq!(next_turn(), now.after(HOUR * 3));
}

#[test]
fn an_inserter_sets_nothing_while_a_turn_is_about_to_begin() {
    let (alarm, clock) = alarm();
    alarm.request(clock.now());
    assert!(alarm.is_awake());
}

#[test]
fn on_a_busy_wheel_no_turn_is_armed_before_the_time_that_the_last_one_allows() {
    let (alarm, clock) = alarm();
    let now = clock.now();
    let next_turn = || Nanos(alarm.next_turn.load(Ordering::Relaxed));
    alarm.set_next_turn(now.after(HOUR), now.after(HOUR * 2));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    alarm.request(now.after(HOUR / 2));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    // A later turn is brought forward, but no further.
    alarm.set_next_turn(now.after(HOUR * 9), now.after(HOUR * 2));
    assert_eq!(next_turn(), now.after(HOUR * 9));
    alarm.request(now.after(HOUR));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    alarm.set_next_turn(now.after(HOUR * 9), now.after(HOUR * 6));
    alarm.request(now.after(HOUR * 8));
    alarm.request(now.after(HOUR * 7));
    assert_eq!(next_turn(), now.after(HOUR * 6), "half of the time that is left would be too early");
    // The next turn finds the wheel at ease.
    alarm.set_next_turn(now.after(HOUR * 9), Nanos::ZERO);
    alarm.request(now.after(HOUR));
    assert_eq!(next_turn(), now.after(HOUR));
}
