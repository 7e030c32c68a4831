//! Leaving entries of dropped timers, reusing them, and clearing them.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::{CLOCK, Counting, Locks, insert};
use crate::engine::leftovers::{BATCH_LEN, Left, Leftovers};
use crate::engine::shard::Shard;
use crate::platform::wakers::WakerId;
use crate::wheel::{Key, Nanos, Progress};

const MINUTE: Duration = Duration::from_secs(60);

/// The only shard of a wheel with ticks of a millisecond.
fn shard() -> Arc<Shard> {
    Arc::new(super::shard((0, 1), Duration::from_millis(1), 64))
}

fn known() -> Waker {
    Arc::<Counting>::default().into()
}

fn id_of(waker: &Waker) -> WakerId {
    WakerId::of(waker)
}

/// Arms a timer with `waker`, and drops it as if it had `other`.
fn leave(shard: &Shard, waker: Waker, other: &Waker) -> Key {
    let deadline = CLOCK.now().after(MINUTE);
    let key = insert(shard, CLOCK.now(), deadline, waker);
    shard.discard(key, deadline, Some(id_of(other)));
    key
}

/// As if `waker` were that of the timer that was left.
fn reuse_own(shard: &Shard, after: Duration, waker: &Waker) -> Option<Key> {
    let now = CLOCK.now();
    shard.reuse_own(now, now.after(after), id_of(waker))
}

#[test]
fn the_waker_of_another_task_is_dropped_outside_the_lock() {
    type Next = fn(&Shard, &Waker);
    let next: [Next; 2] = [
        |shard, waker| assert_eq!(reuse_own(shard, MINUTE, waker), None),
        |shard, waker| {
            let deadline = CLOCK.now().after(MINUTE);
            shard.arm(Nanos::ZERO, deadline, waker).expect("not refused");
        },
    ];
    for next in next {
        let (shard, waker) = (shard(), known());
        leave(&shard, Arc::new(Locks(Arc::downgrade(&shard))).into(), &waker);
        let (done, is_done) = channel();
        thread::spawn(move || {
            next(&shard, &waker);
            done.send(())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(()), "it waits for itself");
    }
}

#[test]
fn a_timer_that_is_due_reuses_nothing() {
    let (shard, waker) = (shard(), known());
    let key = leave(&shard, waker.clone(), &waker);
    let now = CLOCK.now();
    assert!(matches!(shard.arm(now, now, &waker), Ok(None)));
    assert_eq!(reuse_own(&shard, MINUTE, &waker), Some(key));
}

#[test]
fn the_turner_is_to_come_a_second_after_the_first_and_not_after_each() {
    let (shard, waker) = (shard(), known());
    assert_eq!(shard.clear_by(), Nanos::MAX);
    leave(&shard, waker.clone(), &waker);
    let clear_by = shard.clear_by();
    assert!(clear_by <= CLOCK.now().after(Duration::from_secs(1)));
    for _ in 0..3 {
        let key = reuse_own(&shard, MINUTE, &waker).expect("it is there");
        shard.discard(key, CLOCK.now().after(MINUTE), Some(id_of(&waker)));
        assert_eq!(shard.clear_by(), clear_by);
    }
}

#[test]
fn what_is_discarded_after_the_end_leaves_the_turner_nothing_to_do() {
    // With a number that no thread's shard has.
    let shard = super::shard((2, 2), Duration::from_secs(1), 64);
    let far = CLOCK.now().after(MINUTE);
    let arm = || insert(&shard, CLOCK.now(), far, Waker::noop().clone());
    let (before, after) = (arm(), arm());
    shard.discard(before, far, None);
    assert!(shard.next_turn() < far, "it was left for others");
    assert_eq!(shard.end(100, &mut Vec::new()), (1, Progress::Done));
    shard.discard(after, far, None);
    assert_eq!(shard.next_turn(), Nanos::MAX);
}

#[test]
fn the_turner_clears_all_a_second_after_the_first() {
    let leftovers = Leftovers::new();
    let at = |millis| Nanos::ZERO.after(Duration::from_millis(millis));
    let leave = |millis| leftovers.leave_in_batch(Key::PLACEHOLDER, || at(millis));
    assert_eq!(leave(10_000), Left::First(at(11_000)));
    assert!((1..BATCH_LEN).all(|_| leave(20_000) == Left::Yes));
    assert_eq!((leave(20_000), leftovers.clear_by()), (Left::No, at(11_000)));
    // A spare does not put that off, nor does a batch put off what a spare has asked for.
    let spare = |millis| leftovers.leave_as_spare(Key::PLACEHOLDER, id_of(Waker::noop()), || at(millis));
    assert_eq!((spare(10_500), leftovers.clear_by()), (Left::Yes, at(11_000)));
    assert_eq!(leftovers.take_all(None).into_iter().flatten().count(), BATCH_LEN + 1);
    assert_eq!(spare(12_000), Left::First(at(13_000)));
    assert_eq!((leave(12_500), leftovers.clear_by()), (Left::First(at(13_000)), at(13_000)));
}
