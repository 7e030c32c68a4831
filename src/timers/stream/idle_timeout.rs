//! `stream.idle_timeout_on(&wheel, d)`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{FusedStream, Stream};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::access::access_to_stream_within;
use super::timeout::Timeout;
use crate::error::Elapsed;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

pin_project! {
    /// The stream of [`StreamTimeExt::idle_timeout_on`](super::StreamTimeExt::idle_timeout_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct IdleTimeout<S> {
        // Not polled any more once it has given an error.
        #[pin]
        timeout: Timeout<S>,
    }
}

access_to_stream_within!(IdleTimeout, timeout);

impl<S: Stream> IdleTimeout<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, limit: Duration) -> Self {
        Self { timeout: Timeout::new(stream, wheel, limit) }
    }

    /// With a tolerance: the end may be late, by a time or by a share of the limit. See
    /// [`Tolerance`].
    pub fn with_tolerance(self, tolerance: Tolerance) -> Self {
        Self { timeout: self.timeout.with_tolerance(tolerance) }
    }

    /// How long a gap may be.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.timeout.limit()
    }

    /// Sets how long a gap may be, from the next item on. For the current gap see [`reset`](Self::reset).
    pub fn set_limit(self: Pin<&mut Self>, limit: Duration) {
        self.project().timeout.set_limit(limit);
    }

    /// The instant at which the stream ends unless an item comes before; `None` once it has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.timeout.deadline()
    }

    /// Moves the deadline of the current gap. A stream that had ended by its error goes on.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().timeout.reset(deadline);
    }

    /// Moves the deadline of the current gap to `duration` from now, as [`reset`](Self::reset) does. A deadline more
    /// than [583 years](crate::Sleep::deadline) ahead never comes.
    pub fn reset_after(self: Pin<&mut Self>, duration: Duration) {
        self.project().timeout.reset_after(duration);
    }
}

impl<S: Stream> Stream for IdleTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.timeout.is_running() { self.project().timeout.poll_next(cx) } else { Poll::Ready(None) }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.is_terminated() {
            return (0, Some(0));
        }
        // The error may take the place of all items, or come after the last.
        let (lower, upper) = self.get_ref().size_hint();
        (lower.min(1), upper.and_then(|items| items.checked_add(1)))
    }
}

/// Terminated at the end of the stream within, and by the error; after that, until it is
/// [moved](IdleTimeout::reset) to another deadline.
impl<S: Stream> FusedStream for IdleTimeout<S> {
    fn is_terminated(&self) -> bool {
        !self.timeout.is_running() || self.timeout.is_terminated()
    }
}
