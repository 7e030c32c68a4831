//! Helpers for tests of streams.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures::channel::mpsc;
use futures::stream::{FusedStream, Stream, StreamExt};
use timingwheel::TimingWheel;
use tokio::task::coop;
use tokio_test::{assert_pending, assert_ready, task};

pub(crate) use crate::{DAY, SECOND, ms};

/// A stream that has what is sent.
pub(crate) fn channel() -> (mpsc::UnboundedSender<u32>, mpsc::UnboundedReceiver<u32>) {
    mpsc::unbounded()
}

/// Refuses all timers.
pub(crate) fn full_wheel() -> TimingWheel {
    TimingWheel::builder().max_pending(0).build().unwrap()
}

pub(crate) fn ended_wheel() -> TimingWheel {
    let wheel = TimingWheel::new();
    wheel.shutdown();
    wheel
}

/// Uses up the cooperative budget of the task, as a stream that always has more does.
pub(crate) fn spend_budget(cx: &mut Context<'_>) {
    while coop::has_budget_remaining() {
        assert_ready!(coop::poll_proceed(cx)).made_progress();
    }
}

/// Is never ready, and spends the whole budget at each poll.
pub(crate) fn busy_stream() -> impl Stream<Item = u32> + Unpin {
    futures::stream::poll_fn(|cx| {
        spend_budget(cx);
        Poll::Pending
    })
}

/// Has an item at every other poll, and is pending in between.
pub(crate) fn hesitant_stream() -> impl Stream<Item = u32> + Unpin {
    let mut n = 0;
    futures::stream::poll_fn(move |_| {
        n += 1;
        if n % 2 == 1 { Poll::Ready(Some(n)) } else { Poll::Pending }
    })
}

/// Ends, and must not be polled after that.
#[derive(Debug)]
pub(crate) struct EndsOnce {
    pub(crate) has_ended: bool,
}

pub(crate) fn ends_once() -> EndsOnce {
    EndsOnce { has_ended: false }
}

impl Stream for EndsOnce {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        assert!(!self.has_ended, "polled after its end");
        self.has_ended = true;
        Poll::Ready(None)
    }
}

/// The stream is at its end, says so, and stays there.
pub(crate) fn assert_stays_ended<S: FusedStream>(stream: S) {
    let mut stream = task::spawn(Box::pin(stream));
    for _ in 0..3 {
        assert!(assert_ready!(stream.poll_next()).is_none());
        assert!(stream.is_terminated());
        assert_eq!(stream.size_hint(), (0, Some(0)));
    }
}

/// The stream ends when that within does, and does not poll it again.
pub(crate) fn assert_ends<S: FusedStream>(stream: S) {
    assert!(!stream.is_terminated());
    assert_stays_ended(stream);
}

pub(crate) fn assert_send_sync_unpin_debug<T: Send + Sync + Unpin + Debug>(_: &T) {}

/// Takes items of `stream` for as long as another task of the runtime has not run.
pub(crate) async fn assert_lets_others_run<S: Stream>(stream: S) {
    let mut stream = pin!(stream);
    let other = tokio::spawn(std::future::ready(()));
    let mut rounds = 0;
    while !other.is_finished() {
        assert!(stream.next().await.is_some());
        rounds += 1;
        assert!(rounds < 10_000, "the other task never runs");
    }
}

/// After a task has spent its budget, the next poll is pending and wakes the task.
pub(crate) async fn assert_waits_without_budget<S: Stream<Item: Debug> + Unpin>(stream: &mut S) {
    std::future::poll_fn(|cx| {
        spend_budget(cx);
        Poll::Ready(())
    })
    .await;
    let mut task = task::spawn(stream);
    assert_pending!(task.poll_next());
    tokio::task::yield_now().await;
    assert!(task.is_woken());
}
