//! Models with more threads than loom can take. Their threads act at random. The invariants are the same as in the small
//! models.

mod owners;

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use shuttle::rand::{Rng, thread_rng};

use super::alarm::{assert_not_overslept, spawn_park};
use super::checker::{block_on, check_most, thread};
use super::{CountingWaker, HOUR, Parts, at, register, turn, wheel};
use crate::engine::shard::Shard;
use crate::handle::TimingWheel;

/// Four threads that arm and cancel in three shards, against the runtime's park and the driver's task.
fn driver_among_many() -> &'static str {
    let Parts { shards, alarm, mut driver, .. } = Parts::new(3);
    let shards: Arc<[_]> = shards.into();
    driver.put_to_sleep();
    let inserters: Vec<_> = (0..4)
        .map(|_| {
            let shards = shards.clone();
            thread::spawn(move || {
                let mut pending = Vec::new();
                // There are few, so that the earliest timer is seldom armed early.
                for _ in 0..thread_rng().gen_range(1..3) {
                    let shard: &Arc<Shard> = &shards[thread_rng().gen_range(0..3)];
                    let deadline = at(thread_rng().gen_range(1..=8));
                    let key = register(shard, deadline, &CountingWaker::new());
                    if thread_rng().gen_bool(0.3) {
                        assert!(shard.cancel(key, deadline).is_some());
                    } else {
                        pending.push(deadline);
                    }
                }
                pending
            })
        })
        .collect();
    let park = spawn_park(&driver);
    for _ in 0..thread_rng().gen_range(0..3) {
        thread::yield_now();
        assert!(driver.poll().is_pending());
    }
    let pending: Vec<_> = inserters.into_iter().flat_map(|inserter| inserter.join().unwrap()).collect();
    park.join().unwrap();
    let earliest = pending.into_iter().min().unwrap_or(at(8));
    let has_pending = shards.iter().any(|shard| shard.pending() > 0);
    if has_pending { assert_not_overslept(&mut driver, &alarm, earliest) } else { "the driver sleeps" }
}

/// Fails for the reasons of the models in `alarm`.
#[test]
fn what_many_arm_is_not_overslept() {
    check_most(["the driver sleeps"], driver_among_many);
}

/// Three tasks that make, move and drop sleeps, against the turner, and then against the end. A lost wake-up is a
/// deadlock.
#[test]
fn tasks_that_sleep_are_woken() {
    check_most(["all went on"], || {
        let Parts { shards, turner, driver, .. } = Parts::new(1);
        // Dropping the driver would end the wheel.
        std::mem::forget(driver);
        let shard = shards[0].clone();
        let wheel = wheel(shards, turner);
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let wheel = wheel.clone();
                thread::spawn(move || block_on(sleep_again_and_again(&wheel)))
            })
            .collect();
        for hour in 1..=10 {
            turn(&shard, at(hour), thread_rng().gen_range(1..3));
            thread::yield_now();
        }
        wheel.shutdown();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(shard.pending(), 0);
        "all went on"
    });
}

async fn sleep_again_and_again(wheel: &TimingWheel) {
    for _ in 0..3 {
        let mut sleep = match wheel.try_sleep(HOUR * thread_rng().gen_range(1..12)) {
            Ok(sleep) => sleep,
            Err(error) => return assert!(error.is_shutdown()),
        };
        match thread_rng().gen_range(0..4) {
            0 => drop(sleep),
            1 => {
                // The sleep is polled, moved, and then awaited by another waker.
                let waker = CountingWaker::new().into();
                if sleep.poll_unconstrained(&mut Context::from_waker(&waker)).is_pending() {
                    Pin::new(&mut sleep).reset_after(HOUR * thread_rng().gen_range(1..12));
                }
                let _ended = std::future::poll_fn(|cx| sleep.poll_wait(cx)).await;
            }
            _ => {
                let _ended = std::future::poll_fn(|cx| sleep.poll_wait(cx)).await;
            }
        }
    }
}
