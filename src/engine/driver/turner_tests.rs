//! What a turn leaves: when the next one is, and since when a rest is due.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::pace::TURNS_IN_TIME;
use super::turner::LeftToDo;
use super::{DrivenShards, DriverTask};
use crate::engine::alarm::Alarm;
use crate::engine::shard::Shard;
use crate::engine::watchdog::Watched;
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::telemetry::stats::Stats;
use crate::wheel::{Hierarchy, Nanos, Resolution};

const TICK: Duration = Duration::from_millis(1);
const HANG_GUARD: Duration = Duration::from_secs(30);

/// A shard, and the driver that turns it.
fn rig(clock: Clock, is_pausable: bool) -> (Arc<Shard>, Arc<Alarm>, DriverTask) {
    let resolution = Resolution::new(TICK).expect("not zero");
    let alarm = Arc::new(Alarm::new(clock, is_pausable, 1, Counters::of("rig".into())));
    let shard = Arc::new(Shard::new((0, 1), Hierarchy::new(resolution, 64), clock, alarm.clone(), None));
    let shards = Arc::new(DrivenShards::new(std::slice::from_ref(&shard)));
    (shard, alarm.clone(), DriverTask::new(shards, alarm, clock, resolution))
}

/// As of two ticks before `now`, when none of these deadlines had come.
fn register(shard: &Shard, now: Nanos, deadlines: impl Iterator<Item = Nanos>) {
    for deadline in deadlines {
        let waker = Waker::noop().clone();
        shard.register(now.before(TICK * 2), deadline, waker).expect("not refused").expect("not due");
    }
}

/// The time for which the alarm is set after a turn which has handed out `fired` timers, and which leaves one that is due shortly before
/// the end of a pair of ticks; with this deadline and that end.
///
/// Before that turn there are as many as tell that the runtime is idle, and the turn is late by `late`.
fn alarm_after_a_turn(fired: usize, late: Duration) -> (Nanos, Nanos, Nanos) {
    loop {
        let clock = Clock::start();
        let (shard, alarm, driver) = rig(clock, false);
        for _ in 0..TURNS_IN_TIME {
            alarm.set_for_rest(clock.now());
            assert_eq!(driver.turner.turn(), LeftToDo::Nothing);
        }
        let now = clock.now();
        let end = Nanos(now.after(TICK).0.next_multiple_of(2_000_000));
        let deadline = end.before(TICK / 10);
        register(&shard, now, std::iter::repeat_n(now.before(TICK), fired).chain([deadline]));
        alarm.set_for_rest(clock.now().before(late));
        assert_eq!(driver.turner.turn(), LeftToDo::Nothing);
        // Otherwise the test was held up.
        if clock.now() < deadline && end.before(TICK * 2) <= now {
            return (alarm.next_turn().expect("a timer is left"), deadline, end);
        }
    }
}

const LATE: Duration = Duration::from_millis(1);

#[test]
fn after_a_turn_that_has_handed_out_many_the_next_is_at_the_end_of_a_second_tick() {
    let (alarm, deadline, end) = alarm_after_a_turn(32, LATE);
    assert_eq!((alarm, alarm > deadline), (end, true));
    let (alarm, deadline, _) = alarm_after_a_turn(31, LATE);
    assert_eq!(alarm, deadline);
}

/// A turn of this test's may be late, as the test may lose its core.
#[test]
fn where_the_runtime_is_idle_between_turns_eight_are_many() {
    let is_at_end = |fired| {
        let (alarm, _, end) = alarm_after_a_turn(fired, Duration::ZERO);
        alarm == end
    };
    let begin = Instant::now();
    while !is_at_end(8) {
        assert!(begin.elapsed() < HANG_GUARD);
    }
    assert!((0..10).all(|_| !is_at_end(7)));
}

/// The next turn would be taken for a late one, and counted as a stall.
#[test]
fn a_turn_that_leaves_a_rest_says_since_when_that_is_due_also_where_the_clock_can_be_paused() {
    let clock = Clock::start();
    let (shard, _, driver) = rig(clock, true);
    let now = clock.now();
    register(&shard, now, std::iter::repeat_n(now, 5_000));
    let LeftToDo::Rest(due) = driver.turner.turn() else { panic!("it fires 4,096 at most") };
    assert!(due >= now, "{due:?}");
}

#[test]
fn a_backlog_that_takes_several_turns_is_one_stall() {
    let clock = Clock::start();
    let (shard, alarm, driver) = rig(clock, false);
    let now = clock.now();
    register(&shard, now, std::iter::repeat_n(now, 10_000));
    let mut due = now.before(Duration::from_millis(50));
    for _ in 0..2 {
        alarm.set_for_rest(due);
        let LeftToDo::Rest(since) = driver.turner.turn() else { panic!("it fires 4,096 at most") };
        due = since;
    }
    let mut stats = Stats::default();
    alarm.counters().copy_to(&mut stats);
    assert_eq!(stats.stalls, 1);
}

/// The timerfd calls the park of any worker. tokio's timer would call later, and a wheel may have no timer.
#[test]
fn a_timer_fd_has_the_rest_of_a_turn_handed_out_on_a_real_clock_and_otherwise_the_drivers_task() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _within = runtime.enter();
    for (is_pausable, has_timers) in [(false, true), (false, false), (true, true)] {
        let clock = Clock::start();
        let (_shard, alarm, driver) = rig(clock, is_pausable);
        let timers = driver.turner.timers();
        let by_timer_fd = has_timers && timers.has_timer_fd() && !is_pausable;
        if has_timers {
            alarm.set_timers(timers);
        }
        alarm.set_for_rest(clock.now());
        // Until the task has turned.
        assert_eq!(alarm.is_awake(), !by_timer_fd, "{is_pausable} {has_timers}");
    }
}
