//! For when the alarm is set, after what turners and inserters have asked for.

use std::sync::Arc;
use std::time::Duration;

use super::CLOCK;
use crate::engine::alarm::Alarm;
use crate::engine::watchdog::Watched;
use crate::wheel::Nanos;

fn alarm() -> Arc<Alarm> {
    super::alarm(CLOCK)
}

const HOUR: Duration = Duration::from_secs(60 * 60);

#[test]
fn a_turn_was_to_be_made_when_it_was_armed_for_and_not_before_it_was_asked_for() {
    let alarm = alarm();
    assert_eq!(alarm.begin_turn(), None, "the alarm was not set");
    let hour = CLOCK.now().after(HOUR);
    assert!(!alarm.set_next_turn(hour, Nanos::ZERO));
    assert_eq!(alarm.begin_turn(), Some(hour));
    assert_eq!(alarm.begin_turn(), None, "another turner has begun it");
    let asked_at = CLOCK.now();
    alarm.set_next_turn(Nanos(1), Nanos::ZERO);
    assert!(alarm.begin_turn().is_some_and(|due| due >= asked_at));
}

#[test]
fn each_that_is_earlier_sets_its_time() {
    let alarm = alarm();
    let now = CLOCK.now();
    alarm.set_next_turn(Nanos::MAX, Nanos::ZERO);
    for hours in [4, 3, 2] {
        alarm.request(now.after(HOUR * hours));
        assert_eq!(alarm.turn_due(), Some(now.after(HOUR * hours)));
    }
}

#[test]
fn an_inserter_sets_nothing_while_a_turn_is_about_to_begin() {
    let alarm = alarm();
    alarm.request(CLOCK.now());
    assert!(alarm.is_awake());
}

#[test]
fn on_a_busy_wheel_no_turn_is_armed_before_the_time_that_the_last_one_allows() {
    let alarm = alarm();
    let now = CLOCK.now();
    let next_turn = || alarm.turn_due().expect("it is set");
    alarm.set_next_turn(now.after(HOUR), now.after(HOUR * 2));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    alarm.request(now.after(HOUR / 2));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    // A later turn is brought forward, but no further.
    alarm.set_next_turn(now.after(HOUR * 9), now.after(HOUR * 2));
    assert_eq!(next_turn(), now.after(HOUR * 9));
    alarm.request(now.after(HOUR));
    assert_eq!(next_turn(), now.after(HOUR * 2));
    // The next turn finds the wheel at ease.
    alarm.set_next_turn(now.after(HOUR * 9), Nanos::ZERO);
    alarm.request(now.after(HOUR));
    assert_eq!(next_turn(), now.after(HOUR));
}
