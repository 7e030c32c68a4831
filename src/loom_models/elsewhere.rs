//! The entries of timers that were dropped elsewhere, which those that come take over, against the driver and each other.

use super::checker::{check, check_most, thread};
use super::spare_entry::{Task, let_go, stats};
use super::{CountingWaker, FULL_BATCH, at, register, shard, spawn_turn, turn};
use crate::engine::shard::Shard;
use crate::wheel::{Key, Nanos};

/// As a task does that has no entry of its own to take over.
fn replace(shard: &Shard, task: &Task, deadline: Nanos) -> Key {
    let armed = shard.register_or_take_over(at(0), deadline, task.waker.clone());
    armed.expect("not refused").expect("not due")
}

/// Fails if one that was dropped elsewhere is taken without the lock.
#[test]
fn a_timer_that_takes_the_place_of_one_dropped_elsewhere_fires_at_its_own_deadline() {
    // Later than the one before, and earlier.
    for (before, deadline) in [(1, 3), (4, 2)] {
        check(["taken over", "not taken over"], move || {
            let shard = shard(None);
            let (task, other) = (Task::new(&shard), Task::new(&shard));
            // What there is a turn for.
            register(&shard, at(1), &CountingWaker::new());
            let left = other.arm(at(before));
            shard.leave_in_batch(left);
            let driver = spawn_turn(&shard, at(1), FULL_BATCH);
            let key = replace(&shard, &task, at(deadline));
            driver.join().unwrap();
            assert_eq!((task.counter.count(), other.counter.count(), shard.pending()), (0, 0, 1));
            assert!(shard.next_turn() <= at(deadline), "the driver does not come");
            turn(&shard, at(deadline), FULL_BATCH);
            assert_eq!((task.counter.count(), shard.pending()), (1, 0));
            assert!(task.is_let_go() && other.is_let_go());
            if key == left { "taken over" } else { "not taken over" }
        });
    }
}

/// Fails if whoever takes one away leaves it there.
#[test]
fn of_two_that_take_the_places_of_those_dropped_elsewhere_each_has_its_own() {
    check_most(["none", "one", "two"], || {
        let shard = shard(None);
        let (task, other, third) = (Task::new(&shard), Task::new(&shard), Task::new(&shard));
        let left = [third.arm(at(4)), third.arm(at(4))];
        shard.leave_in_batch(left[0]);
        let elsewhere = thread::spawn({
            let shard = shard.clone();
            move || {
                shard.leave_in_batch(left[1]);
                (replace(&shard, &other, at(5)), other)
            }
        });
        let key = replace(&shard, &task, at(5));
        let (other_key, other) = elsewhere.join().unwrap();
        assert_ne!(key, other_key);
        let stats = stats(&shard);
        assert_eq!((stats.pending, stats.armed, stats.cancelled), (2, 4, 2));
        turn(&shard, at(5), FULL_BATCH);
        assert_eq!([&task, &other, &third].map(|task| task.counter.count()), [1, 1, 0]);
        let_go(&shard, &[&task, &other, &third]);
        match [key, other_key].iter().filter(|key| left.contains(key)).count() {
            0 => "none",
            1 => "one",
            _ => "two",
        }
    });
}
