//! `stream.timeout_on(&wheel, d)`.

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
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

pin_project! {
    /// The stream of [`StreamTimeExt::timeout_on`](super::StreamTimeExt::timeout_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct Timeout<S> {
        #[pin]
        stream: Fuse<S>,
        // Runs unless the error of the current gap has been given.
        countdown: Countdown,
    }
}

access_to_stream_within!(Timeout, stream);

impl<S: Stream> Timeout<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, limit: Duration) -> Self {
        Self { stream: stream.fuse(), countdown: Countdown::running(wheel, limit) }
    }

    /// With a tolerance: the errors may be late, by a time or by a share of the limit. See
    /// [`Tolerance`].
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.countdown.set_tolerance(tolerance);
        self
    }

    /// How long a gap may be.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.countdown.duration()
    }

    /// Sets how long a gap may be, from the next item on. For the current gap see [`reset`](Self::reset).
    ///
    /// If the adapter is not pinned, call `Pin::new(&mut items).set_limit(limit)`, as for each method that takes
    /// `Pin<&mut Self>`.
    pub fn set_limit(self: Pin<&mut Self>, limit: Duration) {
        self.project().countdown.set_duration(limit);
    }

    /// The instant at which the error comes if no item comes before; `None` if the error of the current gap has come,
    /// or if the stream within has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.countdown.deadline().filter(|_| !self.stream.is_done())
    }

    /// Moves the deadline of the current gap. If its error has come, there will be another.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().countdown.run_until(deadline);
    }

    /// Moves the deadline of the current gap to `duration` from now. One of more than
    /// [583 years](crate::Sleep::deadline) never comes.
    pub fn reset_after(self: Pin<&mut Self>, duration: Duration) {
        self.project().countdown.run_for(duration);
    }

    /// Whether there will be an error unless an item comes before.
    pub(super) const fn is_running(&self) -> bool {
        self.countdown.is_running()
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
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
        let (lower, upper) = self.stream.size_hint();
        if self.stream.is_done() {
            return (lower, upper);
        }
        // An error after each item, and one before the first if there is time for it.
        let before_first = usize::from(self.countdown.is_running());
        (lower, upper.and_then(|items| items.checked_mul(2)?.checked_add(before_first)))
    }
}

impl<S: Stream> FusedStream for Timeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
