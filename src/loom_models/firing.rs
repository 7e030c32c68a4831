//! Models of a timer that is cancelled, moved or dropped while the turner fires timers, and of the bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use super::checker::{check, check_most, thread};
use super::{CountingWaker, FULL_BATCH, HOUR, SLOTS, at, move_to, register, shard, spawn_turn, turn};
use crate::engine::max_pending::MaxPending;
use crate::telemetry::stats::Stats;

/// Fails if `handed_out` is published before the entries have been.
#[test]
fn a_timer_is_cancelled_or_fires_and_is_gone_when_cancel_returns() {
    check(["cancelled", "fired"], || {
        let (shard, waker) = (shard(None), CountingWaker::new());
        let key = register(&shard, at(1), &waker);
        let turner = spawn_turn(&shard, at(2), FULL_BATCH);
        let cancelled = shard.cancel(key, at(1)).is_some();
        assert_eq!(shard.pending(), 0);
        turner.join().unwrap();
        assert_eq!(waker.count(), usize::from(!cancelled));
        if cancelled { "cancelled" } else { "fired" }
    });
}

/// Fails if `handed_out` is the time of the turn, whether or not its batch was full.
#[test]
fn a_timer_is_cancelled_during_a_cascade_in_batches_and_the_others_fire() {
    check(["cancelled", "fired"], || {
        let shard = shard(None);
        // All stand in one bucket of the overflow level. The cascade moves the first two to one bucket of level 0.
        let timers = [1, 1, 2].map(|hours| {
            let (deadline, waker) = (at(SLOTS + hours), CountingWaker::new());
            (register(&shard, deadline, &waker), deadline, waker)
        });
        let turner = spawn_turn(&shard, at(SLOTS + 2), 1);
        let (key, deadline, waker) = &timers[0];
        let cancelled = shard.cancel(*key, *deadline).is_some();
        let is_gone = shard.set_waker(*key, Waker::noop().clone()).is_err();
        assert!(is_gone);
        turner.join().unwrap();
        assert_eq!(waker.count(), usize::from(!cancelled));
        assert_eq!((timers[1].2.count(), timers[2].2.count()), (1, 1));
        if cancelled { "cancelled" } else { "fired" }
    });
}

/// Fails if the turner fires a timer that has been moved on.
#[test]
fn a_timer_that_is_moved_to_later_fires_at_its_old_deadline_or_at_the_new_one() {
    check(["fired at the old", "fired at the new"], || {
        let (shard, waker) = (shard(None), CountingWaker::new());
        let key = register(&shard, at(1), &waker);
        let turner = spawn_turn(&shard, at(2), FULL_BATCH);
        let moved = shard.reschedule(key, at(1), at(3)).is_ok();
        turner.join().unwrap();
        assert_eq!((waker.count(), shard.pending()), if moved { (0, 1) } else { (1, 0) });
        turn(&shard, at(3), FULL_BATCH);
        assert_eq!((waker.count(), shard.pending()), (1, 0));
        if moved { "fired at the new" } else { "fired at the old" }
    });
}

/// Fails if moving a timer does not publish.
#[test]
fn a_timer_that_is_moved_to_earlier_during_a_turn_fires_by_then() {
    check(["fired"], || {
        let (shard, waker) = (shard(None), CountingWaker::new());
        // This timer gives the turn something to do.
        register(&shard, at(1), &CountingWaker::new());
        let key = register(&shard, at(4), &waker);
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        assert!(move_to(&shard, key, at(4), at(2)));
        turner.join().unwrap();
        assert_eq!((waker.count(), shard.pending()), (0, 1));
        turn(&shard, at(2), FULL_BATCH);
        assert_eq!((waker.count(), shard.pending()), (1, 0));
        "fired"
    });
}

/// Fails if only the clock is asked whether the new deadline has been reached, and not the wheel: the wheel may have
/// been turned since the clock was read.
#[test]
fn a_timer_that_is_moved_to_earlier_and_cancelled_is_gone_when_cancel_returns() {
    check(["cancelled", "fired", "found due"], || {
        let (shard, waker) = (shard(None), CountingWaker::new());
        register(&shard, at(1), &CountingWaker::new());
        let key = register(&shard, at(4), &waker);
        let turner = spawn_turn(&shard, at(2), FULL_BATCH);
        let moved = move_to(&shard, key, at(4), at(2));
        let cancelled = moved && shard.cancel(key, at(2)).is_some();
        let is_gone = shard.set_waker(key, Waker::noop().clone()).is_err();
        assert!(is_gone);
        turner.join().unwrap();
        assert_eq!(waker.count(), usize::from(!cancelled));
        match (moved, cancelled) {
            (false, _) => "found due",
            (true, true) => "cancelled",
            (true, false) => "fired",
        }
    });
}

/// Fails if the move returns the waker without taking the entry out, or takes the entry out without returning the
/// waker.
#[test]
fn a_timer_that_is_moved_into_the_past_wakes_once() {
    check(["woken"], || {
        let (shard, waker) = (shard(None), CountingWaker::new());
        let key = register(&shard, at(1), &waker);
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        assert!(!move_to(&shard, key, at(1), at(0)));
        turner.join().unwrap();
        assert_eq!((waker.count(), shard.pending()), (1, 0));
        "woken"
    });
}

/// Fails if a thread checks for a free place and takes it in two steps.
#[test]
fn no_more_places_are_taken_than_there_are_and_none_is_lost() {
    check(["one refused", "none refused"], || {
        let bound = Arc::new(MaxPending::new(1));
        // This is not the model checker's atomic, because it only counts.
        let held = Arc::new(AtomicUsize::new(0));
        let take_and_give_back = {
            let (bound, held) = (bound.clone(), held.clone());
            move || {
                let taken = bound.take().is_ok();
                if taken {
                    assert_eq!(held.fetch_add(1, Ordering::Relaxed), 0);
                    thread::yield_now();
                    held.fetch_sub(1, Ordering::Relaxed);
                    bound.give_back(1);
                }
                taken
            }
        };
        let other = thread::spawn(take_and_give_back.clone());
        let taken = [take_and_give_back(), other.join().unwrap()];
        assert!(taken.contains(&true));
        bound.take().expect("all have been given back");
        assert!(bound.take().expect_err("there is only one").is_at_capacity());
        if taken == [true; 2] { "none refused" } else { "one refused" }
    });
}

/// Fails if firing or cancelling gives back no place, and if cancelling gives one back even if the timer has fired.
#[test]
fn a_timer_that_is_cancelled_as_it_fires_gives_its_place_back_once() {
    check(["cancelled", "fired"], || {
        let shard = shard(Some(Arc::new(MaxPending::new(1))));
        let key = register(&shard, at(1), &CountingWaker::new());
        let turner = spawn_turn(&shard, at(1), FULL_BATCH);
        let cancelled = shard.cancel(key, at(1)).is_some();
        turner.join().unwrap();
        register(&shard, at(2), &CountingWaker::new());
        let refused = shard.insert(at(0), at(2).after(HOUR), Waker::noop().clone());
        assert!(refused.expect_err("there is one place").is_at_capacity());
        if cancelled { "cancelled" } else { "fired" }
    });
}

/// Discards timers of one deadline on other threads while the turner turns, and returns what became of them.
fn discarded_as_they_fire(timers: usize) -> &'static str {
    let shard = shard(None);
    let wakers: Vec<_> = (0..timers).map(|_| CountingWaker::new()).collect();
    let keys: Vec<_> = wakers.iter().map(|waker| register(&shard, at(1), waker)).collect();
    let owners: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let shard = shard.clone();
            thread::spawn(move || shard.discard_elsewhere(key))
        })
        .collect();
    turn(&shard, at(1), FULL_BATCH);
    owners.into_iter().for_each(|owner| owner.join().unwrap());

    let mut stats = Stats::default();
    shard.add_to(&mut stats);
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, timers as u64));
    let woken: usize = wakers.iter().map(|waker| waker.count()).sum();
    assert_eq!(
        woken as u64, stats.fired,
        "a timer that was taken out woke its task, or one that fired did not"
    );
    assert!(wakers.iter().all(|waker| Arc::strong_count(waker) == 1), "a waker is kept");
    match woken {
        0 => "none fires",
        _ if woken == timers => "all fire",
        _ => "some fire",
    }
}

/// Fails if the turner does not clear the leftovers before it hands out, and if the leftovers that fill the batch are
/// cleared without the lock.
#[test]
fn a_timer_that_is_discarded_elsewhere_as_it_fires_is_cancelled_or_fires() {
    check(["all fire", "none fires"], || discarded_as_they_fire(1));
    check_most(["all fire", "none fires", "some fire"], || discarded_as_they_fire(2));
}

/// Fails if a full batch is emptied before the shard's lock is taken: then the turner finds entries whose owners are
/// long gone.
#[test]
fn a_timer_that_was_discarded_elsewhere_does_not_fire_while_others_are_discarded() {
    check(["the other fires", "none fires"], || {
        let (shard, waker, other) = (shard(None), CountingWaker::new(), CountingWaker::new());
        let keys = [&waker, &waker, &other].map(|waker| register(&shard, at(1), waker));
        let owner = thread::spawn({
            let shard = shard.clone();
            move || shard.discard_elsewhere(keys[2])
        });
        keys[..2].iter().for_each(|&key| shard.discard_elsewhere(key));
        turn(&shard, at(1), FULL_BATCH);
        assert_eq!(waker.count(), 0);
        owner.join().unwrap();
        assert_eq!(shard.pending(), 0);
        if other.count() == 1 { "the other fires" } else { "none fires" }
    });
}
