//! `stream.timeout_repeating_on(interval)`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::{Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::coop;

use super::access::access_to_stream_within;
use crate::error::Elapsed;
use crate::timers::interval::Interval;
use crate::timers::timeout::poll_deadline;

pin_project! {
    /// The stream of [`StreamTimeExt::timeout_repeating_on`](super::StreamTimeExt::timeout_repeating_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct TimeoutRepeating<S> {
        #[pin]
        stream: Fuse<S>,
        interval: Interval,
        // Not any more once an error has said that it cannot, or all polls would give that error.
        is_ticking: bool,
    }
}

access_to_stream_within!(TimeoutRepeating, stream);

impl<S: Stream> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        Self { stream: stream.fuse(), interval, is_ticking: true }
    }

    /// The interval.
    pub const fn interval(&self) -> &Interval {
        &self.interval
    }

    /// The interval, to set its period or to reset it. After an error that said that the interval cannot tick, this
    /// call also lets the stream try the interval again.
    pub fn interval_mut(self: Pin<&mut Self>) -> &mut Interval {
        let this = self.project();
        *this.is_ticking = true;
        this.interval
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(next) = this.stream.poll_next(cx) {
            if next.is_some() {
                this.interval.reset();
                *this.is_ticking = true;
            }
            return Poll::Ready(next.map(Ok));
        }
        if !*this.is_ticking {
            return Poll::Pending;
        }
        let elapsed = ready!(poll_deadline(this.interval.sleep_mut(), had_budget, cx));
        match elapsed.reason() {
            None => _ = this.interval.take_tick(),
            Some(_) => *this.is_ticking = false,
        }
        Poll::Ready(Some(Err(elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // There may be any number of errors, until the end.
        (lower, upper.filter(|_| self.stream.is_done()))
    }
}

impl<S: Stream> FusedStream for TimeoutRepeating<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
