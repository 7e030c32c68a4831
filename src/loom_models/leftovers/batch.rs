//! Models of the batch of dropped timers: new timers reuse their entries, while the turner and others take them out.

use super::super::checker::{check, check_most, thread};
use super::super::{CountingWaker, FULL_BATCH, at, register, shard, spawn_turn, turn};
use super::{Task, clear, stats};
use crate::engine::shard::Shard;
use crate::wheel::{Key, Nanos};

/// Arms a timer as a task does whose own waker is in no leftover.
fn replace(shard: &Shard, task: &Task, deadline: Nanos) -> Key {
    let armed = shard.arm(at(0), deadline, &task.waker);
    armed.expect("not refused").expect("not due").0
}

/// Fails if a leftover is taken from the batch without the lock.
#[test]
fn a_timer_that_takes_the_place_of_one_dropped_elsewhere_fires_at_its_own_deadline() {
    // Once the new deadline is later than the one before, once earlier.
    for (before, deadline) in [(1, 3), (4, 2)] {
        check(["reused", "not reused"], move || {
            let shard = shard(None);
            let (task, other) = (Task::new(&shard), Task::new(&shard));
            // This timer gives the turn something to do.
            register(&shard, at(1), &CountingWaker::new());
            let left = other.arm(at(before));
            shard.discard_elsewhere(left);
            let turner = spawn_turn(&shard, at(1), FULL_BATCH);
            let key = replace(&shard, &task, at(deadline));
            turner.join().unwrap();
            assert_eq!((task.counter.count(), other.counter.count(), shard.pending()), (0, 0, 1));
            assert!(shard.next_turn() <= at(deadline), "the turner does not come");
            turn(&shard, at(deadline), FULL_BATCH);
            assert_eq!((task.counter.count(), shard.pending()), (1, 0));
            assert!(task.has_no_entry() && other.has_no_entry());
            if key == left { "reused" } else { "not reused" }
        });
    }
}

/// Fails if a leftover that is reused stays in the batch.
#[test]
fn of_two_that_take_the_places_of_those_dropped_elsewhere_each_has_its_own() {
    check_most(["none", "one", "two"], || {
        let shard = shard(None);
        let (task, other, third) = (Task::new(&shard), Task::new(&shard), Task::new(&shard));
        let left = [third.arm(at(4)), third.arm(at(4))];
        shard.discard_elsewhere(left[0]);
        let elsewhere = thread::spawn({
            let shard = shard.clone();
            move || {
                shard.discard_elsewhere(left[1]);
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
        clear(&shard, &[&task, &other, &third]);
        match [key, other_key].iter().filter(|key| left.contains(key)).count() {
            0 => "none",
            1 => "one",
            _ => "two",
        }
    });
}
