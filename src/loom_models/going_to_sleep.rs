//! The driver as it goes to sleep, against those who insert and against the thread that rings.
//!
//! The invariant is the same in all of them: once all is quiet, and the driver has been polled once more if it has
//! been woken, what will wake it is set for the earliest expiration.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::checker::{block_on, check, check_most, thread};
use super::{CountingWaker, LONG_AGO, OVERDUE, Parts, PolledDriver, Route, at, bring_forward, register};
use crate::alarm::Alarm;
use crate::shard::Shard;
use crate::wheel::Nanos;

const OUTCOMES: [&str; 2] = ["the driver sleeps", "the driver has been woken"];

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

fn spawn_inserter(shard: &Arc<Shard>, deadline: Nanos) -> thread::JoinHandle<()> {
    let shard = shard.clone();
    thread::spawn(move || {
        register(&shard, deadline, &CountingWaker::new());
    })
}

fn arm_while_the_driver_goes_to_sleep(route: Route) -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(route, 1);
    let inserter = spawn_inserter(&shards[0], at(1));
    assert_eq!(driver.poll(), Poll::Pending);
    inserter.join().unwrap();
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails if the inserter looks at `armed` before it publishes, if the driver looks at the shards again before it
/// arms or not at all, and without either fence.
#[test]
fn a_timer_armed_as_the_driver_goes_to_sleep_sets_the_thread() {
    // The thread would wake it, but plays no part.
    check(["the driver sleeps"], || arm_while_the_driver_goes_to_sleep(Route::Thread));
}

/// Fails for the same reasons.
#[test]
fn a_timer_armed_as_the_driver_goes_to_sleep_wakes_it() {
    check(OUTCOMES, || arm_while_the_driver_goes_to_sleep(Route::Waker));
}

fn move_earlier_while_the_driver_goes_to_sleep(route: Route) -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(route, 1);
    let shard = shards[0].clone();
    let key = register(&shard, at(3), &CountingWaker::new());
    let owner = thread::spawn(move || assert!(bring_forward(&shard, key, at(3), at(1))));
    assert_eq!(driver.poll(), Poll::Pending);
    owner.join().unwrap();
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails if moving a timer does not publish.
#[test]
fn a_timer_moved_to_earlier_as_the_driver_goes_to_sleep_is_not_overslept() {
    check(["the driver sleeps"], || move_earlier_while_the_driver_goes_to_sleep(Route::Thread));
    check(OUTCOMES, || move_earlier_while_the_driver_goes_to_sleep(Route::Waker));
}

fn two_arm_while_the_driver_goes_to_sleep(route: Route) -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(route, 2);
    let inserters = [spawn_inserter(&shards[0], at(2)), spawn_inserter(&shards[1], at(1))];
    assert_eq!(driver.poll(), Poll::Pending);
    inserters.into_iter().for_each(|inserter| inserter.join().unwrap());
    assert_not_overslept(&mut driver, &alarm, at(1))
}

/// Fails for the same reasons as with one.
#[test]
fn of_two_timers_armed_as_the_driver_goes_to_sleep_the_earlier_counts() {
    check_most(["the driver sleeps"], || two_arm_while_the_driver_goes_to_sleep(Route::Thread));
    check_most(OUTCOMES, || two_arm_while_the_driver_goes_to_sleep(Route::Waker));
}

/// Fails if an inserter does not look at `armed` again under the lock.
#[test]
fn of_two_timers_armed_while_the_driver_sleeps_the_earlier_sets_the_thread() {
    check(["the driver sleeps"], || {
        let Parts { shards, alarm, mut driver, .. } = Parts::new(Route::Thread, 2);
        driver.put_to_sleep();
        let inserters = [spawn_inserter(&shards[0], at(2)), spawn_inserter(&shards[1], at(1))];
        inserters.into_iter().for_each(|inserter| inserter.join().unwrap());
        assert_not_overslept(&mut driver, &alarm, at(1))
    });
}

/// Fails if whoever takes the time out of `armed` does not wake the driver.
#[test]
fn of_two_timers_armed_while_the_driver_sleeps_either_wakes_it() {
    check(["the driver has been woken"], || {
        let Parts { shards, alarm, mut driver, .. } = Parts::new(Route::Waker, 2);
        driver.put_to_sleep();
        let inserters = [spawn_inserter(&shards[0], at(2)), spawn_inserter(&shards[1], at(1))];
        inserters.into_iter().for_each(|inserter| inserter.join().unwrap());
        assert_not_overslept(&mut driver, &alarm, at(1))
    });
}

/// Fails if the shard's next expiration is published without the lock.
#[test]
fn a_timer_armed_as_the_only_other_one_is_cancelled_is_not_overslept() {
    check(OUTCOMES, || {
        let Parts { shards, alarm, mut driver, .. } = Parts::new(Route::Waker, 1);
        let key = register(&shards[0], at(1), &CountingWaker::new());
        driver.put_to_sleep();
        let inserter = spawn_inserter(&shards[0], at(2));
        assert!(shards[0].cancel(key, at(1)).is_some());
        inserter.join().unwrap();
        assert_not_overslept(&mut driver, &alarm, at(2))
    });
}

/// Fails if the thread forgets its time after it has let go of the lock, and if it does not wake the driver.
#[test]
fn a_thread_that_rings_loses_no_time_set_meanwhile() {
    check_most(OUTCOMES, || {
        let Parts { shards, alarm, mut driver, .. } = Parts::new(Route::Thread, 2);
        register(&shards[0], at(2), &CountingWaker::new());
        driver.put_to_sleep();
        let inserter = spawn_inserter(&shards[1], at(1));
        let thread = thread::spawn({
            let alarm = alarm.clone();
            move || alarm.ring_if_set()
        });
        assert_eq!(driver.poll(), Poll::Pending);
        inserter.join().unwrap();
        thread.join().unwrap();
        assert_not_overslept(&mut driver, &alarm, at(1))
    });
}

/// From end to end: the thread waits for hour 2, a timer that is due is armed, its task and the driver's end,
/// and the thread with them. A lost wake-up is a deadlock.
///
/// Fails if the thread is not notified of an earlier time or of its end, if it does not wake the driver, if the
/// timer's task is woken before it can see that its deadline is reached, and if the last shard to go does not
/// wake the driver.
#[test]
fn a_timer_armed_while_the_thread_waits_for_a_later_one_wakes_its_task() {
    check_most(["all have ended"], || {
        let Parts { shards, driven, alarm, mut driver } = Parts::new(Route::Thread, 2);
        register(&shards[0], at(2), &CountingWaker::new());
        driver.put_to_sleep();
        let thread = thread::spawn(move || alarm.run_thread());
        let task = thread::spawn({
            let shard = shards[1].clone();
            move || {
                let mut registered = false;
                block_on(poll_fn(|cx| {
                    if !registered {
                        registered = true;
                        shard
                            .register(LONG_AGO, OVERDUE, cx.waker().clone())
                            .expect("not ended")
                            .expect("not due");
                    }
                    if shard.has_reached(OVERDUE) { Poll::Ready(()) } else { Poll::Pending }
                }));
            }
        });
        drop((shards, driven));
        block_on(driver.driver);
        task.join().unwrap();
        thread.join().unwrap();
        "all have ended"
    });
}
