//! `stream.idle_timeout_on(&wheel, d)`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use super::access::access_to_stream_within;
use super::countdown::Countdown;
use crate::error::Elapsed;
use crate::timing_wheel::TimingWheel;

pin_project! {
    /// The stream of [`StreamTimeExt::idle_timeout_on`](super::StreamTimeExt::idle_timeout_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct IdleTimeout<S> {
        #[pin]
        stream: Fuse<S>,
        // Runs until the error has been given.
        countdown: Countdown,
    }
}

access_to_stream_within!(IdleTimeout);

impl<S: Stream> IdleTimeout<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, limit: Duration) -> Self {
        Self { stream: stream.fuse(), countdown: Countdown::running(wheel, limit) }
    }

    /// How long a gap may be.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.countdown.duration()
    }

    /// Sets how long a gap may be, from the next item on. For the current gap see [`reset`](Self::reset).
    pub fn set_limit(self: Pin<&mut Self>, limit: Duration) {
        self.project().countdown.set_duration(limit);
    }

    /// The instant at which the stream ends unless an item comes before; `None` once that has happened.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.countdown.deadline()
    }

    /// Moves the deadline of the current gap. A stream that had ended by its error goes on.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().countdown.run_until(deadline);
    }
}

impl<S: Stream> Stream for IdleTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if !this.countdown.is_running() {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(next) = this.stream.poll_next(cx) {
            if next.is_some() {
                this.countdown.restart();
            }
            return Poll::Ready(next.map(Ok));
        }
        let elapsed = ready!(this.countdown.poll_end(had_budget, cx));
        Poll::Ready(Some(Err(elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_terminated() {
            return (0, Some(0));
        }
        // The error may take the place of all items, or come after the last.
        let (lower, upper) = self.stream.size_hint();
        (lower.min(1), upper.and_then(|items| items.checked_add(1)))
    }
}

/// Terminated at the end of the stream within, and by the error; after that, until it is
/// [moved](IdleTimeout::reset) to another deadline.
impl<S: Stream> FusedStream for IdleTimeout<S> {
    fn is_terminated(&self) -> bool {
        !self.countdown.is_running() || self.stream.is_terminated()
    }
}
