//! Models of the alarm: turners set it for the next turn, while inserters and other turners do so too.
//!
//! The invariant is the same in all models: once all threads are done, and the driver's task has been polled once more
//! if it has been woken, the timer of the runtime's park is set for the earliest expiration, or for an earlier time. On a
//! busy wheel it may be set for the earliest time that is allowed instead.

use std::sync::Arc;
use std::task::Poll;

use super::checker::{check, check_most, thread};
use super::{CountingWaker, OVERDUE, Parts, PolledDriver, at, move_to, register};
use crate::engine::alarm::Alarm;
use crate::engine::shard::Shard;
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

pub(super) fn assert_not_overslept(
    driver: &mut PolledDriver,
    alarm: &Alarm,
    earliest: Nanos,
) -> &'static str {
    let woken = driver.is_woken();
    if woken {
        assert_eq!(driver.poll(), Poll::Pending);
    }
    assert!(alarm.is_set_for(earliest), "it sleeps past {earliest:?}");
    if woken { "the driver has been woken" } else { "the driver sleeps" }
}

/// Does what the runtime's park does when its timer is due.
pub(super) fn spawn_park(driver: &PolledDriver) -> thread::JoinHandle<()> {
    let turner = driver.driver.turner.clone();
    thread::spawn(move || turner.turn())
}

fn spawn_inserter(shard: &Arc<Shard>, deadline: Nanos) -> thread::JoinHandle<()> {
    let shard = shard.clone();
    thread::spawn(move || {
        register(&shard, deadline, &CountingWaker::new());
    })
}

fn arm_while_the_driver_goes_to_sleep() -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(1);
    let inserter = spawn_inserter(&shards[0], at(1));
    assert_eq!(driver.poll(), Poll::Pending);
    inserter.join().unwrap();
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails if the inserter checks `next_turn` before it publishes, if the driver checks the shards again before it arms or
/// not at all, and without either fence.
#[test]
fn a_timer_armed_as_the_driver_goes_to_sleep_sets_the_timers() {
    check(["the driver sleeps"], arm_while_the_driver_goes_to_sleep);
}

fn move_earlier_while_the_driver_goes_to_sleep() -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(1);
    let shard = shards[0].clone();
    let key = register(&shard, at(3), &CountingWaker::new());
    let owner = thread::spawn(move || assert!(move_to(&shard, key, at(3), at(1))));
    assert_eq!(driver.poll(), Poll::Pending);
    owner.join().unwrap();
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails if moving a timer does not publish.
#[test]
fn a_timer_moved_to_earlier_as_the_driver_goes_to_sleep_is_not_overslept() {
    check(["the driver sleeps"], move_earlier_while_the_driver_goes_to_sleep);
}

fn two_arm_while_the_driver_goes_to_sleep() -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(2);
    let inserters = [spawn_inserter(&shards[0], at(2)), spawn_inserter(&shards[1], at(1))];
    assert_eq!(driver.poll(), Poll::Pending);
    inserters.into_iter().for_each(|inserter| inserter.join().unwrap());
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails for the same reasons as with one.
#[test]
fn of_two_timers_armed_as_the_driver_goes_to_sleep_the_earlier_counts() {
    check_most(["the driver sleeps"], two_arm_while_the_driver_goes_to_sleep);
}

/// Fails if an inserter does not check `next_turn` again under the lock.
#[test]
fn of_two_timers_armed_while_the_driver_sleeps_the_earlier_sets_the_timers() {
    check(["the driver sleeps"], || {
        let Parts { shards, alarm, mut driver, .. } = Parts::new(2);
        driver.put_to_sleep();
        let inserters = [spawn_inserter(&shards[0], at(2)), spawn_inserter(&shards[1], at(1))];
        inserters.into_iter().for_each(|inserter| inserter.join().unwrap());
        assert_not_overslept(&mut driver, &alarm, at(1))
    });
}

/// Fails if the shard's next expiration is published without the lock, and if the task does not turn when it is woken.
#[test]
fn a_timer_armed_as_the_only_other_one_is_cancelled_on_a_paused_clock_is_not_overslept() {
    check(["the driver sleeps", "the driver has been woken"], || {
        let Parts { shards, alarm, mut driver, .. } = Parts::with(Clock::that_pauses(true), 1);
        let key = register(&shards[0], at(1), &CountingWaker::new());
        driver.put_to_sleep();
        let inserter = spawn_inserter(&shards[0], at(2));
        assert!(shards[0].cancel(key, at(1)).is_some());
        inserter.join().unwrap();
        assert_not_overslept(&mut driver, &alarm, at(2))
    });
}

fn arm_while_parks_turn(shards: usize, parks: usize) -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(shards);
    register(&shards[0], at(2), &CountingWaker::new());
    driver.put_to_sleep();
    let inserter = spawn_inserter(&shards[shards.len() - 1], at(1));
    let parks: Vec<_> = (0..parks).map(|_| spawn_park(&driver)).collect();
    inserter.join().unwrap();
    parks.into_iter().for_each(|park| park.join().unwrap());
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails if a turner checks the shards for the last time before it arms, and without either fence.
#[test]
fn a_park_that_turns_loses_no_time_set_meanwhile() {
    check(["the driver sleeps"], || arm_while_parks_turn(2, 1));
}

/// Fails if the second turner relies on the first one's check of the shards.
#[test]
fn of_two_that_turn_at_the_same_time_the_last_one_arms_for_the_earliest() {
    check_most(["the driver sleeps"], || arm_while_parks_turn(1, 2));
}

/// Fails if an inserter sets its timer's time without publishing it, if a turn does not check the shards again, and if
/// a timer's task is woken before it can see that its deadline is reached.
#[test]
fn a_timer_that_is_due_as_the_park_turns_fires_then_or_has_the_park_called_again() {
    check(["at once", "when called again"], || {
        let Parts { shards, alarm, driver, .. } = Parts::new(1);
        let waker = CountingWaker::new();
        let inserter = thread::spawn({
            let (shard, waker) = (shards[0].clone(), waker.clone());
            move || {
                register(&shard, OVERDUE, &waker);
            }
        });
        spawn_park(&driver).join().unwrap();
        inserter.join().unwrap();
        let outcome = if waker.count() > 0 { "at once" } else { "when called again" };
        if waker.count() == 0 {
            assert!(alarm.is_set_for(OVERDUE), "nobody will fire it");
            spawn_park(&driver).join().unwrap();
        }
        assert_eq!((waker.count(), shards[0].has_reached(OVERDUE)), (1, true));
        outcome
    });
}

/// Fails if an inserter whose expiration comes before the time that is allowed leaves a later turn armed, and without
/// either fence.
#[test]
fn a_timer_armed_as_a_turn_finds_the_wheel_busy_fires_by_the_earliest_time_that_is_allowed() {
    check(["it has set the timers", "the turn has"], || {
        let Parts { shards, alarm, driver: _driver, .. } = Parts::new(1);
        let (shard, allowed) = (&shards[0], at(2));
        let inserter = spawn_inserter(shard, at(1));
        let planned = loop {
            alarm.begin_turn();
            let first = shard.next_turn();
            alarm.set_next_turn(first, allowed);
            if first <= shard.next_turn() {
                break first;
            }
        };
        inserter.join().unwrap();
        assert!(alarm.is_set_for(allowed), "it sleeps past the time that is allowed");
        if planned == at(1) { "the turn has" } else { "it has set the timers" }
    });
}

/// Fails if a turn that finds the wheel at ease leaves that time as it is, and without either fence.
#[test]
fn a_timer_armed_as_a_turn_finds_the_wheel_at_ease_does_not_wait_for_the_time_that_was_allowed_before() {
    check(["it has set the timer", "the turn has"], || {
        let Parts { shards, alarm, driver: _driver, .. } = Parts::new(1);
        let shard = &shards[0];
        alarm.set_next_turn(at(3), at(3));
        let inserter = spawn_inserter(shard, at(1));
        let planned = loop {
            alarm.begin_turn();
            let first = shard.next_turn();
            alarm.set_next_turn(first, Nanos::ZERO);
            if first <= shard.next_turn() {
                break first;
            }
        };
        inserter.join().unwrap();
        assert!(alarm.is_set_for(at(1)), "it sleeps until the time that was allowed before");
        if planned == at(1) { "the turn has" } else { "it has set the timer" }
    });
}
