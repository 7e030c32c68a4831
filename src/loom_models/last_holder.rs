//! Threads that keep a reference for their next timer, against the end of the wheel.

use std::sync::Arc;

use super::checker::{check, spawn_keeper, thread};
use super::{Parts, PolledDriver, Route};
use crate::engine::shard::{Shard, ShardRef};

/// Spawns a thread that drops the last handle and polls the driver. It returns whether the wheel has ended, and the
/// driver.
fn spawn_end(Parts { shards, alarm, mut driver, .. }: Parts) -> thread::JoinHandle<(bool, PolledDriver)> {
    thread::spawn(move || {
        alarm.orphan();
        drop(shards);
        alarm.wake_to_check();
        (driver.poll().is_ready(), driver)
    })
}

/// For models whose first thread keeps a reference.
fn in_a_thread(model: fn() -> &'static str) -> impl Fn() -> &'static str + Send + Sync {
    move || spawn_keeper(model).join().unwrap()
}

/// A thread drops the last timer, which `arm` makes, as the last handle goes.
fn last_timer_and_last_handle(arm: fn(&Arc<Shard>) -> ShardRef) -> &'static str {
    let parts = Parts::new(Route::Park, 1);
    let timer = arm(&parts.shards[0]);
    let end = spawn_end(parts);
    drop(timer);
    let (has_ended, mut driver) = end.join().unwrap();
    if has_ended {
        return "at once";
    }
    let outcome = if driver.is_woken() { "when woken" } else { "when it checks again" };
    assert_eq!(driver.poll(), std::task::Poll::Ready(()), "only what this thread keeps is left");
    outcome
}

/// Fails if a thread that finds no handle left keeps its reference, and does not wake the driver.
#[test]
fn a_wheel_whose_last_timer_goes_with_its_last_handle_ends() {
    let outcomes = ["at once", "when woken", "when it checks again"];
    check(outcomes, in_a_thread(|| last_timer_and_last_handle(ShardRef::new)));
    check(
        outcomes,
        in_a_thread(|| {
            last_timer_and_last_handle(|shard| {
                let timer = ShardRef::new(shard);
                drop(ShardRef::new(shard));
                timer
            })
        }),
    );
}

/// Fails if a timer that takes over a kept reference leaves the tag as it is, if tags are counted before references, if a
/// thread writes its tag before it checks for a handle, and without either fence.
#[test]
fn a_wheel_does_not_end_while_a_timer_is_left() {
    // The thread keeps no reference, because its timer has taken it over.
    check(
        ["it has not ended"],
        in_a_thread(|| {
            let parts = Parts::new(Route::Park, 1);
            drop(ShardRef::new(&parts.shards[0]));
            let timer = ShardRef::new(&parts.shards[0]);
            let (has_ended, _driver) = spawn_end(parts).join().unwrap();
            assert!(!has_ended);
            drop(timer);
            "it has not ended"
        }),
    );
    // Meanwhile another thread ends, and gives up what it keeps.
    check(
        ["it has not ended"],
        in_a_thread(|| {
            let parts = Parts::new(Route::Park, 1);
            let [timer, other] = [(); 2].map(|()| ShardRef::new(&parts.shards[0]));
            let keeper = spawn_keeper(move || drop(other));
            let (has_ended, _driver) = spawn_end(parts).join().unwrap();
            assert!(!has_ended);
            keeper.join().unwrap();
            drop(timer);
            "it has not ended"
        }),
    );
    // Another thread clones the reference of a timer that it does not own, and drops the clone.
    check(
        ["it has not ended"],
        in_a_thread(|| {
            let parts = Parts::new(Route::Park, 1);
            let timer = Arc::new(ShardRef::new(&parts.shards[0]));
            let cloner = spawn_keeper({
                let timer = timer.clone();
                move || drop(ShardRef::clone(&timer))
            });
            let (has_ended, _driver) = spawn_end(parts).join().unwrap();
            assert!(!has_ended);
            cloner.join().unwrap();
            drop(timer);
            "it has not ended"
        }),
    );
}
