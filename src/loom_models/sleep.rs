//! Models of a `Sleep` that is polled while the turner fires it or the wheel ends. A lost wake-up would be a deadlock.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::checker::{block_on, check, thread};
use super::{CountingWaker, HOUR, Parts, at, turn, wheel};
use crate::engine::shard::Shard;
use crate::error::Error;
use crate::handle::TimingWheel;
use crate::timers::sleep::Sleep;

/// A sleep until `at(1)`, registered for the task of `waker`, with its shard and its wheel.
fn sleep(waker: &Arc<CountingWaker>) -> (Sleep, Arc<Shard>, TimingWheel) {
    let Parts { shards, turner, driver, .. } = Parts::new(1);
    // Dropping the driver would end the wheel.
    std::mem::forget(driver);
    let shard = shards[0].clone();
    let wheel = wheel(shards, turner);
    let mut sleep = wheel.sleep(HOUR);
    assert!(sleep.poll_unconstrained(&mut Context::from_waker(&waker.clone().into())).is_pending());
    (sleep, shard, wheel)
}

/// Polls with a clone of the waker. All clones have the same address, as those of most executors do. Only the first
/// waker of the model checker has another, so polls with it would never find that the waker is the same.
fn poll(sleep: &mut Sleep, cx: &Context<'_>) -> Poll<Result<(), Error>> {
    sleep.poll_unconstrained(&mut Context::from_waker(&cx.waker().clone()))
}

/// Waits as another task, and starts `other` after its first poll.
fn wait_for(sleep: &mut Sleep, other: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let mut other = Some(other);
    let mut thread = None;
    let result = block_on(poll_fn(|cx| {
        let poll = poll(sleep, cx);
        thread = thread.take().or_else(|| other.take().map(thread::spawn));
        poll
    }));
    thread.expect("started after the first poll").join().unwrap();
    result
}

/// Fails if the wakers are woken before `reached` is published.
#[test]
fn a_task_that_is_woken_finds_its_deadline_reached() {
    check(["elapsed"], || {
        let (mut sleep, shard, _wheel) = sleep(&CountingWaker::new());
        wait_for(&mut sleep, move || turn(&shard, at(1), 8)).expect("not ended");
        assert!(sleep.is_elapsed());
        "elapsed"
    });
}

/// Fails if a poll by another task leaves the waker as it is, and if such a poll takes an entry that is gone for a
/// pending one.
#[test]
fn a_task_that_takes_a_sleep_over_as_it_fires_finds_it_elapsed_or_is_woken() {
    check(["the first task was woken", "the second task was woken"], || {
        let first = CountingWaker::new();
        let (mut sleep, shard, _wheel) = sleep(&first);
        let turner = thread::spawn(move || turn(&shard, at(1), 8));
        block_on(poll_fn(|cx| poll(&mut sleep, cx))).expect("not ended");
        turner.join().unwrap();
        if first.count() == 1 { "the first task was woken" } else { "the second task was woken" }
    });
}

/// Fails if the end does not make every deadline count as reached, and if this is published after the tasks have been
/// woken.
#[test]
fn a_task_whose_wheel_ends_gets_the_error() {
    check(["error"], || {
        let (mut sleep, _shard, wheel) = sleep(&CountingWaker::new());
        let shut_down = move || assert_eq!(wheel.shutdown(), 1);
        assert!(wait_for(&mut sleep, shut_down).expect_err("not due").is_shutdown());
        "error"
    });
}

/// Fails for the reasons of the two models before.
#[test]
fn a_task_that_takes_a_sleep_over_as_the_wheel_ends_gets_the_error() {
    check(["the first task was woken", "the second task was woken"], || {
        let first = CountingWaker::new();
        let (mut sleep, _shard, wheel) = sleep(&first);
        let end = thread::spawn(move || wheel.shutdown());
        assert!(block_on(poll_fn(|cx| poll(&mut sleep, cx))).expect_err("not due").is_shutdown());
        assert_eq!(end.join().unwrap(), 1);
        if first.count() == 1 { "the first task was woken" } else { "the second task was woken" }
    });
}
