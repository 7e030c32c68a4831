//! `stream.chunks_timeout_on(&wheel, n, d)`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::coop;

use super::access::access_to_stream_within;
use super::countdown::Countdown;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

pin_project! {
    /// The stream of [`StreamTimeExt::chunks_timeout_on`](super::StreamTimeExt::chunks_timeout_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: Fuse<S>,
        max_size: usize,
        chunk: Vec<S::Item>,
        // How long the chunk before was: as much memory the next one takes at once.
        last_size: usize,
        // Runs from a chunk's first item on; of no interest while there is none.
        countdown: Countdown,
    }
}

access_to_stream_within!(ChunksTimeout, stream);

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, wheel: &TimingWheel, max_size: usize, duration: Duration) -> Self {
        assert!(max_size > 0, "chunk size must be at least 1, got 0");
        Self {
            stream: stream.fuse(),
            max_size,
            chunk: Vec::new(),
            last_size: 0,
            countdown: Countdown::stopped(wheel, duration),
        }
    }

    /// With a tolerance: chunks that are not full may be late, by a time or by a share of their time. See
    /// [`Tolerance`].
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.countdown.set_tolerance(tolerance);
        self
    }

    /// Takes the items out that wait for their chunk to be full, or for its time.
    #[must_use = "the items in it are in no chunk"]
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        std::mem::take(self.project().chunk)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        loop {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.chunk.is_empty() {
                        this.countdown.restart();
                        this.chunk.reserve_exact(*this.last_size);
                    }
                    this.chunk.push(item);
                    if this.chunk.len() >= *this.max_size {
                        break;
                    }
                }
                Poll::Ready(None) if this.chunk.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) => break,
                Poll::Pending if this.chunk.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    // If it is because the timer cannot run, a chunk that is handed out too early loses nothing.
                    let _ = ready!(this.countdown.poll_end(had_budget, cx));
                    break;
                }
            }
        }
        *this.last_size = this.chunk.len();
        Poll::Ready(Some(std::mem::take(this.chunk)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        let waiting = self.chunk.len();
        // The fewest chunks are full ones, the most are of one item each, but for what waits already.
        let fewest = lower.saturating_add(waiting).div_ceil(self.max_size);
        (fewest, upper.and_then(|items| items.checked_add(usize::from(waiting > 0))))
    }
}

impl<S: Stream> FusedStream for ChunksTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated() && self.chunk.is_empty()
    }
}
