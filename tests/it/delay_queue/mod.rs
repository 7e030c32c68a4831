//! `time::DelayQueue`, mostly on tokio's paused clock.
//!
//! `same` is compiled twice, and runs on tokio-util's queue too. The other files test behaviour that differs.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod end;
mod items;
mod on_tokio_util;
mod on_wheel;
mod panics;
mod scripts;
mod waking;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Expired;
use tokio_test::assert_ready;
use tokio_test::task::Spawn;

use crate::panic_place::panic_text;
use crate::{DAY, ms};

/// Polls once, with a waker that tells whether it was woken.
fn poll<T>(queue: &mut Spawn<DelayQueue<T>>) -> Poll<Option<Expired<T>>> {
    queue.enter(|cx, mut queue| queue.poll_expired(cx))
}

/// The next value, which is due.
#[track_caller]
fn due<T>(queue: &mut Spawn<DelayQueue<T>>) -> T {
    assert_ready!(poll(queue)).expect("there is an item").into_inner()
}

/// All values, as they come due.
async fn drain<T>(queue: &mut DelayQueue<T>) -> Vec<T> {
    let mut values = Vec::new();
    while let Some(expired) = poll_fn(|cx| queue.poll_expired(cx)).await {
        values.push(expired.into_inner());
    }
    values
}
