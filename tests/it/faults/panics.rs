//! Users' futures and streams that panic under a timer, when polled or dropped. `panics_in_clone` and `wakers` have panics
//! of wakers.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{Stream, StreamExt};
use timingwheel::stream::StreamTimeExt;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio_test::{assert_pending, task};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// At the poll after the first, which is pending.
    Polled,
    Dropped,
}

/// A future or stream that waits, until it panics.
struct Panics {
    when: When,
    polled: bool,
}

impl Panics {
    const fn when(when: When) -> Self {
        Self { when, polled: false }
    }

    fn poll<T>(&mut self) -> Poll<T> {
        assert!(!self.polled || self.when == When::Dropped, "as it is polled");
        self.polled = true;
        Poll::Pending
    }
}

impl Future for Panics {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Panics::poll(&mut self)
    }
}

impl Stream for Panics {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<()>> {
        Panics::poll(&mut self)
    }
}

impl AsyncRead for Panics {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Panics::poll(&mut self)
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(self.when != When::Dropped || thread::panicking(), "as it is dropped");
    }
}

/// Polls what waits under a timer twice and drops it: one of these panics, and the timer is gone.
async fn assert_leaves_nothing(kind: &str, under_timer: impl AsyncFn(TimingWheel, Panics)) {
    for when in [When::Polled, When::Dropped] {
        let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
        let mut waits = task::spawn(under_timer(wheel.clone(), Panics::when(when)));
        assert_pending!(waits.poll());
        assert_eq!(wheel.pending(), 1, "{kind}");
        let panic = catch_unwind(AssertUnwindSafe(move || {
            let _ = waits.poll();
            drop(waits);
        }));
        assert!(panic.is_err(), "{kind} did not panic as it was {when:?}");
        let stats = assert_adds_up(&wheel);
        assert_eq!((stats.pending, stats.armed), (0, 1), "{kind}, {when:?}");
        // The one place has been given back, and the driver lives.
        wheel.sleep(ms(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_panics_under_a_timer_leaves_nothing_behind() {
    assert_leaves_nothing("timeout", async |wheel, panics| {
        let _ = wheel.timeout(DAY, panics).await;
    })
    .await;
    assert_leaves_nothing("timeout_on", async |wheel, panics| {
        let _ = Box::pin(StreamTimeExt::timeout_on(panics, &wheel, DAY)).next().await;
    })
    .await;
    assert_leaves_nothing("idle_guard", async |wheel, panics| {
        let _ = wheel.idle_guard(panics).with_read_limit(DAY).read(&mut [0]).await;
    })
    .await;
}
