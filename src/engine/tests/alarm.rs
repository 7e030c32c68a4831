//! For when the alarm is set, after what turners and inserters have asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::CLOCK;
use crate::engine::alarm::Alarm;
use crate::engine::many_wheels;
use crate::engine::park_timer::ParkTimer;
use crate::engine::watchdog::Watched;
use crate::platform::clock::Clock;
use crate::wheel::{Nanos, Resolution};

fn alarm() -> Arc<Alarm> {
    super::alarm(CLOCK, Resolution::new(TICK).expect("not zero"))
}

const TICK: Duration = Duration::from_millis(1);
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
fn where_that_is_a_system_call_the_first_that_are_earlier_set_their_times_and_the_next_half_of_what_is_left()
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _within = runtime.enter();
    let alarm = alarm();
    let timer = ParkTimer::of_current_runtime(&CLOCK, TICK, &alarm.counters, Waker::noop().clone());
    if !timer.is_fd() {
        return;
    }
    alarm.begin(timer, 1);
    alarm.set_next_turn(Nanos::MAX, Nanos::ZERO);
    let now = CLOCK.now();
    let next_turn = || alarm.turn_due().expect("it is set");
    for hours in [6, 5] {
        alarm.request(now.after(HOUR * hours));
        assert_eq!(next_turn(), now.after(HOUR * hours));
        alarm.request(now.after(HOUR * 9));
        assert_eq!(next_turn(), now.after(HOUR * hours), "it is later");
    }
    alarm.request(now.after(HOUR * 4));
    let half = next_turn();
    assert!(half >= now.after(HOUR * 2) && half < now.after(HOUR * 5 / 2), "{half:?}");
    alarm.request(now.after(HOUR * 3));
    assert_eq!(next_turn(), half, "a row of timers needs no more");
    alarm.request(Nanos(1));
    assert!(next_turn() <= CLOCK.now(), "a time that has passed");
    // A turn begins anew.
    alarm.set_next_turn(now.after(HOUR * 4), Nanos::ZERO);
    alarm.request(now.after(HOUR * 3));
    assert_eq!(next_turn(), now.after(HOUR * 3));
}

#[test]
fn where_that_is_no_system_call_each_that_is_earlier_sets_its_time() {
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

#[test]
fn on_a_thread_that_turns_many_wheels_the_alarm_is_set_to_ends_of_ticks() {
    let resolution = |tick| Resolution::new(tick).expect("not zero");
    let at = resolution(TICK).end_of_tick(CLOCK.now().after(HOUR)).after(TICK / 3);
    let set = |clock, tick| {
        let alarm = super::alarm(clock, resolution(tick));
        alarm.set_next_turn(at.after(HOUR), Nanos::ZERO);
        alarm.request(at);
        let by_request = alarm.turn_due();
        alarm.set_next_turn(at, Nanos::ZERO);
        assert_eq!(alarm.turn_due(), by_request);
        by_request
    };
    // Later, so that it holds however long the test is held up.
    let turned_at = CLOCK.now().after(HOUR);
    let wheel = AtomicU64::new(0);
    (0..10).for_each(|_| many_wheels::note(turned_at, &wheel));
    for wheels in 1..6 {
        let end = if wheels < 4 { at } else { resolution(TICK).end_of_tick(at) };
        assert_eq!(set(CLOCK, TICK), Some(end), "{wheels} wheels");
        assert_eq!(set(CLOCK, TICK * 2), Some(at), "its ticks are long");
        assert_eq!(set(Clock::that_pauses(true), TICK), Some(at), "tests expect each turn on time");
        many_wheels::note(turned_at, &AtomicU64::new(0));
    }
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(set(CLOCK, TICK), Some(at), "another thread has turned none"));
    });
}
