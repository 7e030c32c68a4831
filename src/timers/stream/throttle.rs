//! `stream.throttle_on(&wheel, d)`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{FusedStream, Stream};
use pin_project_lite::pin_project;

use super::countdown::Countdown;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

pin_project! {
    /// The stream of [`StreamTimeExt::throttle_on`](super::StreamTimeExt::throttle_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        // Runs from an item on for as long as the next one has to wait.
        countdown: Countdown,
    }
}

impl<S> Throttle<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, distance: Duration) -> Self {
        Self { stream, countdown: Countdown::stopped(wheel, distance) }
    }

    /// With a tolerance: items may be late, by a time or by a share of the distance. See
    /// [`Tolerance`].
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.countdown.set_tolerance(tolerance);
        self
    }

    /// The stream within.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within. An item that you take through this reference is not throttled.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream within, as [`get_mut`](Self::get_mut), for streams that must not be moved.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// The stream within, not throttled any more.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        ready!(this.countdown.poll_over(cx));
        let next = ready!(this.stream.poll_next(cx));
        if next.is_some() && !this.countdown.duration().is_zero() {
            this.countdown.restart();
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: FusedStream> FusedStream for Throttle<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}
