//! An interval's ticks as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{FusedStream, Stream};
use tokio::time::Instant;

use crate::timers::interval::Interval;

/// The ticks of an [`Interval`] as an endless stream. Each item is the instant at which the tick was due.
///
/// # Panics
/// Polling it panics as [`Interval::tick`] does: if the wheel has ended or is full.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use futures::StreamExt;
/// use timingwheel::{TimingWheel, stream::IntervalStream};
/// use tokio::time::Instant;
///
/// let second = Duration::from_secs(1);
/// let start = Instant::now();
/// let ticks = IntervalStream::new(TimingWheel::new().interval(second));
/// let ticks: Vec<_> = ticks.take(3).collect().await;
/// assert_eq!(ticks, [start, start + second, start + second * 2]);
/// # }
/// ```
#[must_use = "a stream does nothing unless it is polled"]
#[derive(Debug)]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// The ticks of `interval`.
    pub const fn new(interval: Interval) -> Self {
        Self { interval }
    }

    /// The interval.
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// Never terminated.
impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        false
    }
}

impl From<Interval> for IntervalStream {
    fn from(interval: Interval) -> Self {
        Self::new(interval)
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
