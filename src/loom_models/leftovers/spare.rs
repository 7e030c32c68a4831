//! Models of the spare entry: the next timer reuses it, while the turner and others want it too.

use std::task::Waker;

use super::super::checker::{check, check_most, thread};
use super::super::{CountingWaker, FULL_BATCH, at, register, shard, spawn_turn, turn};
use super::{Task, clear, stats};
use crate::wheel::{Nanos, Progress};

/// Fails if the turner does not clear the leftovers before it hands out.
#[test]
fn a_timer_that_is_dropped_as_it_fires_has_fired_by_then_or_does_not() {
    check(["dropped", "fired"], || {
        let shard = shard(None);
        let task = Task::new(&shard);
        let key = task.arm(at(1));
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        task.discard(key, at(1));
        let fired = stats(&shard).fired;
        turner.join().unwrap();
        turn(&shard, at(1), FULL_BATCH);
        let stats = stats(&shard);
        assert_eq!((stats.pending, stats.fired, stats.cancelled), (0, fired, 1 - fired));
        assert_eq!(task.counter.count() as u64, fired);
        clear(&shard, &[&task]);
        if fired > 0 { "fired" } else { "dropped" }
    });
}

/// Fails if the next timer takes the spare without the lock.
#[test]
fn a_timer_that_reuses_an_entry_during_a_turn_fires_at_its_own_deadline() {
    // Once the new deadline is later than the one before, once earlier.
    for (before, deadline) in [(1, 3), (4, 2)] {
        check(["reused", "not reused"], move || {
            let shard = shard(None);
            let task = Task::new(&shard);
            // This timer gives the turn something to do.
            register(&shard, at(1), &CountingWaker::new());
            let key = task.arm(at(before));
            task.discard(key, at(before));
            let turner = spawn_turn(&shard, at(1), FULL_BATCH);
            let reused = task.reuse_own(at(deadline));
            let key = reused.unwrap_or_else(|| task.arm(at(deadline)));
            turner.join().unwrap();
            assert_eq!((task.counter.count(), shard.pending()), (0, 1));
            assert!(shard.next_turn() <= at(deadline), "the turner does not come");
            turn(&shard, at(deadline), FULL_BATCH);
            assert_eq!((task.counter.count(), shard.pending()), (1, 0));
            task.discard(key, at(deadline));
            assert!(task.has_no_entry());
            if reused.is_some() { "reused" } else { "not reused" }
        });
    }
}

/// Fails if only the clock is asked whether the deadline has passed, and not the wheel: then a timer that is dropped
/// counts as handed out, and fires all the same.
#[test]
fn a_timer_that_reuses_an_entry_as_its_deadline_passes_fires_or_is_found_due() {
    for is_dropped in [false, true] {
        check(["armed", "found due"], move || {
            let shard = shard(None);
            let task = Task::new(&shard);
            // This timer gives the turn something to do.
            register(&shard, at(1), &CountingWaker::new());
            let key = task.arm(at(4));
            let turner = spawn_turn(&shard, at(2), FULL_BATCH);
            task.discard(key, at(4));
            let reused = task.reuse_own(at(2));
            let arm = || shard.arm(at(0), at(2), &task.waker).expect("not ended");
            let armed = reused.or_else(|| arm().map(|(key, _)| key));
            turner.join().unwrap();
            if let Some(key) = armed.filter(|_| is_dropped) {
                let woken = task.counter.count();
                task.discard(key, at(2));
                turn(&shard, at(2), FULL_BATCH);
                assert_eq!(task.counter.count(), woken);
            } else {
                turn(&shard, at(2), FULL_BATCH);
                assert_eq!(task.counter.count(), usize::from(armed.is_some()));
            }
            assert_eq!(shard.pending(), 0);
            if armed.is_some() { "armed" } else { "found due" }
        });
    }
}

/// Fails if the next timer does not check whether the entry is still that of the dropped timer.
#[test]
fn a_timer_that_is_dropped_when_its_place_has_gone_to_another_does_not_give_that_away() {
    check(["dropped", "fired"], || {
        let shard = shard(None);
        let task = Task::new(&shard);
        let key = task.arm(at(1));
        let owner = thread::spawn({
            let (shard, id) = (shard.clone(), task.id());
            move || shard.discard(key, at(1), Some(id))
        });
        turn(&shard, at(1), FULL_BATCH);
        let fired = task.counter.count();
        // At the index of the first, if that has left.
        task.arm(at(2));
        owner.join().unwrap();
        assert_eq!(task.reuse_own(at(3)), None);
        turn(&shard, at(2), FULL_BATCH);
        assert_eq!(task.counter.count(), fired + 1);
        if fired > 0 { "fired" } else { "dropped" }
    });
}

/// Fails if a thread still believes that the turner is to come after the turner has been here. This happens if clearing
/// only reads the spare's key, and does not swap it, after it has published that the turner need not come.
#[test]
fn a_timer_dropped_as_the_turner_lets_go_of_others_is_let_go_in_time() {
    check(["at once", "later"], || {
        let shard = shard(None);
        let (task, other) = (Task::new(&shard), Task::new(&shard));
        let keys = [task.arm(at(4)), other.arm(at(4))];
        // This asks the turner to come.
        shard.discard_elsewhere(keys[1]);
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        task.discard(keys[0], at(4));
        turner.join().unwrap();
        let outcome = if task.has_no_entry() { "at once" } else { "later" };
        clear(&shard, &[&task, &other]);
        outcome
    });
    check(["at once", "later"], || {
        let shard = shard(None);
        let task = Task::new(&shard);
        let key = task.arm(at(4));
        task.discard(key, at(4));
        let key = task.reuse_own(at(5)).expect("nobody else is here");
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        task.discard(key, at(5));
        turner.join().unwrap();
        let outcome = if task.has_no_entry() { "at once" } else { "later" };
        clear(&shard, &[&task]);
        outcome
    });
}

/// Fails if the key is stored where it is now compared and exchanged, and if the waker is not compared under the lock.
#[test]
fn of_timers_dropped_at_once_one_is_left_and_the_next_of_its_task_reuses_it() {
    check_most(["the first's", "the second's", "nobody's"], || {
        let shard = shard(None);
        let tasks = [Task::new(&shard), Task::new(&shard)];
        let keys = [tasks[0].arm(at(4)), tasks[1].arm(at(4))];
        let other = thread::spawn({
            let (shard, key, id) = (shard.clone(), keys[1], tasks[1].id());
            move || shard.discard(key, at(4), Some(id))
        });
        tasks[0].discard(keys[0], at(4));
        let reused = tasks[0].reuse_own(at(5));
        other.join().unwrap();
        assert_eq!(shard.pending(), usize::from(reused.is_some()));
        if reused.is_some() {
            turn(&shard, at(5), FULL_BATCH);
            assert_eq!((tasks[0].counter.count(), tasks[1].counter.count()), (1, 0));
            return "the first's";
        }
        let reused = tasks[1].reuse_own(at(5));
        turn(&shard, at(5), FULL_BATCH);
        assert_eq!(tasks[1].counter.count(), usize::from(reused.is_some()));
        clear(&shard, &[&tasks[0], &tasks[1]]);
        if reused.is_some() { "the second's" } else { "nobody's" }
    });
}

/// Fails if reusing an entry does not check whether the shard has ended.
#[test]
fn a_timer_that_is_dropped_as_the_wheel_ends_is_not_reused_after_that() {
    check_most(["reused", "not reused"], || {
        let shard = shard(None);
        let task = Task::new(&shard);
        register(&shard, at(1), &CountingWaker::new());
        let key = task.arm(at(4));
        let end = thread::spawn({
            let shard = shard.clone();
            move || {
                let mut woken = Vec::new();
                while shard.end(1, &mut woken).1 == Progress::More {}
                woken.into_iter().for_each(Waker::wake);
            }
        });
        task.discard(key, at(4));
        let had_ended = shard.has_ended();
        let reused = task.reuse_own(at(5));
        assert!(reused.is_none() || !had_ended);
        end.join().unwrap();
        assert_eq!((shard.next_expiration(), shard.pending()), (Nanos::MAX, 0));
        assert!(task.has_no_entry());
        if reused.is_some() { "reused" } else { "not reused" }
    });
}
