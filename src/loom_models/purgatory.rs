//! Checks of an operation, against each other, its deadline, cancelling, the drop of its future and the end. What
//! conditions look at is relaxed: that they see it is up to the purgatory's locks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::checker::{block_on, check, check_most, spawn_keeper};
use super::{CountingWaker, HOUR, Parts, Route, at, turn};
use crate::engine::shard::Shard;
use crate::handle::timing_wheel::TimingWheel;
use crate::platform::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::services::purgatory::{Purgatory, Watch, WatchError};

/// A purgatory, and the one shard of its wheel.
fn purgatory() -> (Purgatory<u8>, Arc<Shard>) {
    let Parts { shards, driven, alarm, driver } = Parts::new(Route::Park, 1);
    // It would end the wheel as it is dropped.
    std::mem::forget(driver);
    let shard = shards[0].clone();
    (TimingWheel::from_parts(shards, driven, alarm, None).purgatory(), shard)
}

/// What a condition looks at. Each sets one of the two, and some hold when one is set, others when both are.
#[derive(Default)]
struct Changes {
    first: AtomicBool,
    second: AtomicBool,
    tries: AtomicUsize,
}

impl Changes {
    fn both(self: &Arc<Self>) -> impl FnMut() -> Option<()> + Send + use<> {
        let changes = self.clone();
        move || {
            changes.tries.fetch_add(1, Ordering::Relaxed);
            let both = changes.first.load(Ordering::Relaxed) && changes.second.load(Ordering::Relaxed);
            both.then_some(())
        }
    }

    fn first(self: &Arc<Self>) -> impl FnMut() -> Option<()> + Send + use<> {
        let changes = self.clone();
        move || {
            changes.tries.fetch_add(1, Ordering::Relaxed);
            changes.first.load(Ordering::Relaxed).then_some(())
        }
    }
}

fn poll(watch: &mut Watch<()>, waker: &Arc<CountingWaker>) -> Poll<Result<(), WatchError>> {
    Pin::new(watch).poll(&mut Context::from_waker(&waker.clone().into()))
}

fn assert_empty(purgatory: &Purgatory<u8>) {
    assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
}

/// Fails if a check leaves no word with who tries the condition, if that does not look for it under the lock, and if
/// the waker is not told.
#[test]
fn of_two_changes_under_two_keys_the_last_is_not_missed() {
    check(["by one", "by the other"], || {
        let (purgatory, _shard) = purgatory();
        let (changes, waker) = (Arc::new(Changes::default()), CountingWaker::new());
        let mut watch = purgatory.watch([0, 1], HOUR, changes.both());
        assert!(poll(&mut watch, &waker).is_pending());
        let other = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check(&0)
            }
        });
        changes.second.store(true, Ordering::Relaxed);
        let by_one = purgatory.check(&1);
        let by_the_other = other.join().unwrap();
        assert_eq!((by_one + by_the_other, waker.count()), (1, 1));
        assert_empty(&purgatory);
        assert_eq!(poll(&mut watch, &waker), Poll::Ready(Ok(())));
        if by_one == 1 { "by one" } else { "by the other" }
    });
}

/// Fails if the condition is not tried again once it is in its lists, and if a check that finds it tried leaves no
/// word.
#[test]
fn a_change_that_is_checked_as_an_operation_is_added_is_not_missed() {
    check(["by the check", "when it was added", "at once"], || {
        let (purgatory, _shard) = purgatory();
        let changes = Arc::new(Changes::default());
        let other = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check(&0)
            }
        });
        let mut watch = purgatory.watch([0, 1], HOUR, changes.first());
        let checked = other.join().unwrap();
        assert_empty(&purgatory);
        assert_eq!(poll(&mut watch, &CountingWaker::new()), Poll::Ready(Ok(())));
        match (checked, changes.tries.load(Ordering::Relaxed)) {
            (1, _) => "by the check",
            (_, 1) => "at once",
            _ => "when it was added",
        }
    });
}

/// Fails if the deadline or a cancel takes the place of what a condition returned, and if the task that waits for who
/// tries it is not woken.
#[test]
fn of_a_check_a_cancel_and_the_deadline_one_wins() {
    check_most(["cancelled", "completed by the check", "completed at the deadline", "expired"], || {
        let (purgatory, shard) = purgatory();
        let changes = Arc::new(Changes::default());
        let mut watch = purgatory.watch([0], HOUR, changes.first());
        assert!(poll(&mut watch, &CountingWaker::new()).is_pending());
        turn(&shard, at(1), 8);
        let checks = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check(&0)
            }
        });
        let cancels = spawn_keeper({
            let purgatory = purgatory.clone();
            move || purgatory.cancel(&0)
        });
        let outcome = block_on(&mut watch);
        let (completed, cancelled) = (checks.join().unwrap(), cancels.join().unwrap());
        assert_empty(&purgatory);
        assert_eq!(Arc::strong_count(&changes), 1, "the condition is dropped");
        assert!(completed + cancelled <= 1);
        match outcome {
            Ok(()) if completed == 1 => "completed by the check",
            Ok(()) => "completed at the deadline",
            Err(WatchError::Expired) => "expired",
            // One that finds it tried does not count it.
            Err(WatchError::Cancelled) => "cancelled",
            Err(error) => panic!("{error}"),
        }
    });
}

/// Fails if the wheel leaves no word with who tries the condition of an operation that nobody has polled, and if it does
/// not end one that waits. A model has no runtime, so the wheel cannot leave the last try to a task.
#[test]
fn an_operation_that_nobody_polls_expires_as_it_is_checked() {
    check(["completed", "expired"], || {
        let (purgatory, shard) = purgatory();
        let changes = Arc::new(Changes::default());
        let mut watch = purgatory.watch([0], HOUR, changes.first());
        let checks = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check(&0)
            }
        });
        turn(&shard, at(1), 8);
        let completed = checks.join().unwrap();
        assert_empty(&purgatory);
        assert_eq!(Arc::strong_count(&changes), 1, "the condition is dropped");
        let outcome = poll(&mut watch, &CountingWaker::new());
        if completed == 1 {
            assert_eq!(outcome, Poll::Ready(Ok(())));
            "completed"
        } else {
            assert_eq!(outcome, Poll::Ready(Err(WatchError::Expired)));
            "expired"
        }
    });
}

/// Fails if who adds an operation does not look for what the wheel has left with it meanwhile.
#[test]
fn an_operation_whose_deadline_comes_as_it_is_added_leaves_its_lists() {
    check(["as it was added", "later"], || {
        let (purgatory, shard) = purgatory();
        let (changes, driven) = (Arc::new(Changes::default()), shard.clone());
        let turner = spawn_keeper(move || turn(&driven, at(1), 8));
        let mut watch = purgatory.watch([0, 1], HOUR, changes.first());
        turner.join().unwrap();
        // It may have come too early.
        turn(&shard, at(1), 8);
        assert_empty(&purgatory);
        assert_eq!(poll(&mut watch, &CountingWaker::new()), Poll::Ready(Err(WatchError::Expired)));
        if changes.tries.load(Ordering::Relaxed) == 2 { "later" } else { "as it was added" }
    });
}

/// Fails if who drops the future leaves no word with who tries the condition, if that does not take the operation out,
/// and if neither of the two gives back what the condition returned.
#[test]
fn an_operation_dropped_as_it_is_checked_leaves_nothing_behind() {
    check(["completed", "withdrawn"], || {
        let (purgatory, _shard) = purgatory();
        let (changes, waker) = (Arc::new(Changes::default()), CountingWaker::new());
        let given_back = Arc::new(AtomicUsize::new(0));
        let to = given_back.clone();
        let give_back = move |()| _ = to.fetch_add(1, Ordering::Relaxed);
        let mut watch = purgatory.watch([0, 1], HOUR, changes.first()).give_back(give_back);
        assert!(poll(&mut watch, &waker).is_pending());
        let checks = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check(&1)
            }
        });
        drop(watch);
        let completed = checks.join().unwrap();
        assert_empty(&purgatory);
        assert_eq!(Arc::strong_count(&changes), 1, "the condition is dropped");
        assert_eq!(given_back.load(Ordering::Relaxed), completed);
        if completed == 1 { "completed" } else { "withdrawn" }
    });
}

/// Watches an operation under `keys` while another thread shuts the purgatory down.
fn watch_as_it_shuts_down(keys: &'static [u8]) -> &'static str {
    let (purgatory, _shard) = purgatory();
    let end = spawn_keeper({
        let purgatory = purgatory.clone();
        move || purgatory.shutdown()
    });
    let mut watch = purgatory.watch(keys.iter().copied(), HOUR, || None);
    let ended = end.join().unwrap();
    assert_empty(&purgatory);
    assert_eq!(poll(&mut watch, &CountingWaker::new()), Poll::Ready(Err(WatchError::Cancelled)));
    if ended == 1 { "by the end" } else { "by who adds it" }
}

/// Fails if a list is found to be open before the lock is taken under which the operation is added.
#[test]
fn an_operation_added_as_the_purgatory_is_shut_down_is_cancelled() {
    check(["by the end", "by who adds it"], || watch_as_it_shuts_down(&[0]));
}

/// Fails if an operation that is refused stays in the lists before that.
#[test]
fn an_operation_added_to_one_list_as_the_next_is_closed_leaves_it() {
    check(["by the end", "by who adds it"], || watch_as_it_shuts_down(&[0, 1]));
}

/// Fails if who polls does not look, once its waker is there, whether the condition was left to its task, and if who
/// tries it is left no word.
#[test]
fn a_change_that_is_left_to_the_task_as_that_polls_is_not_missed() {
    check(["told", "too late"], || {
        let (purgatory, _shard) = purgatory();
        let changes = Arc::new(Changes::default());
        let mut watch = purgatory.watch([0], HOUR, changes.both());
        let other = spawn_keeper({
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            move || {
                changes.first.store(true, Ordering::Relaxed);
                purgatory.check_in_tasks(&0)
            }
        });
        changes.second.store(true, Ordering::Relaxed);
        purgatory.check(&0);
        assert_eq!(block_on(&mut watch), Ok(()));
        assert_empty(&purgatory);
        if other.join().unwrap() == 1 { "told" } else { "too late" }
    });
}

/// Fails if who tries a condition for too long leaves it to its task without a word, or without waking it.
///
/// loom's alone, as who goes by chance hardly comes to the order in which the task is left to it.
#[cfg(not(shuttle))]
#[test]
fn a_change_that_comes_after_too_many_others_is_left_to_the_task() {
    check_most(["by a check", "by the task"], || {
        let (purgatory, _shard) = purgatory();
        let (changes, waker) = (Arc::new(Changes::default()), CountingWaker::new());
        let mut watch = purgatory.watch([0], HOUR, changes.both());
        assert!(poll(&mut watch, &waker).is_pending());
        let others = [0, 1].map(|n| {
            let (purgatory, changes) = (purgatory.clone(), changes.clone());
            spawn_keeper(move || {
                let change = if n == 0 { &changes.first } else { &changes.second };
                change.store(true, Ordering::Relaxed);
                purgatory.check(&0)
            })
        });
        let mut completed = purgatory.check(&0);
        completed += others.into_iter().map(|other| other.join().unwrap()).sum::<usize>();
        assert_eq!(waker.count(), 1);
        assert_eq!(poll(&mut watch, &waker), Poll::Ready(Ok(())));
        assert_empty(&purgatory);
        if completed == 1 { "by a check" } else { "by the task" }
    });
}
