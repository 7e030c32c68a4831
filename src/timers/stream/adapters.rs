//! The streams that [`StreamTimeExt`](super::StreamTimeExt) makes. Each has a stream, and a [`Countdown`] or an interval.

use std::future::poll_fn;
use std::mem::take;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use crate::error::Elapsed;
use crate::handle::TimingWheel;
use crate::timers::interval::Interval;
use crate::timers::timeout::SureSleep;

/// A time limit that starts again and again, on one timer that is moved.
#[derive(Debug)]
struct Countdown {
    duration: Duration,
    timer: SureSleep,
    is_running: bool,
}

impl Countdown {
    /// `is_running` tells whether it runs from now on, or has yet to be started.
    fn new(wheel: &TimingWheel, duration: Duration, is_running: bool) -> Self {
        Self { duration, timer: SureSleep::new(wheel.sleep(duration)), is_running }
    }

    /// Starts, or starts again, for the whole time, within a poll.
    fn start(&mut self) {
        let sleep = self.timer.moved_in_poll();
        let now = sleep.shard().clock.now();
        sleep.move_to(now.after(self.duration), Some(now));
        self.is_running = true;
    }

    /// Ready once, when the time is up. `had_budget` tells whether the task had budget before the stream was polled.
    fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_running {
            ready!(self.timer.poll(had_budget, cx));
            self.is_running = false;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// Defines an adapter: its fields beside the stream, the methods that all adapters have, and when it is terminated.
macro_rules! adapter {
    (
        $(#[$doc:meta])*
        $Adapter:ident { $($(#[$of_field:meta])* $field:ident: $Type:ty,)* }
        $(#[$of_end:meta])*
        |$this:ident| $is_terminated:expr
    ) => {
        pin_project! {
            $(#[$doc])*
            #[must_use = "a stream does nothing unless it is polled"]
            #[derive(Debug)]
            pub struct $Adapter<S: Stream> {
                #[pin]
                stream: Fuse<S>,
                $($(#[$of_field])* $field: $Type,)*
            }
        }

        impl<S: Stream> $Adapter<S> {
            /// The stream within.
            #[must_use]
            pub fn get_ref(&self) -> &S {
                self.stream.get_ref()
            }

            /// The stream within. An item that you take through this reference does not count as an item here.
            #[must_use]
            pub fn get_mut(&mut self) -> &mut S {
                self.stream.get_mut()
            }

            /// The stream within, pinned.
            #[must_use]
            pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
                self.project().stream.get_pin_mut()
            }

            /// The stream within.
            #[must_use]
            pub fn into_inner(self) -> S {
                self.stream.into_inner()
            }
        }

        $(#[$of_end])*
        impl<S: Stream> FusedStream for $Adapter<S> {
            fn is_terminated(&self) -> bool {
                let $this = self;
                $is_terminated
            }
        }
    };
}

adapter! {
    /// The stream of [`StreamTimeExt::timeout_on`](super::StreamTimeExt::timeout_on), and of
    /// [`idle_timeout_on`](super::StreamTimeExt::idle_timeout_on), which ends with its first error.
    Timeout {
        // Runs unless the error of the current gap has been given.
        countdown: Countdown,
        ends: bool,
    }
    /// Terminated at the end of the stream within. The stream of
    /// [`idle_timeout_on`](super::StreamTimeExt::idle_timeout_on) is also terminated by its error.
    |this| this.stream.is_terminated() || (this.ends && !this.countdown.is_running)
}

impl<S: Stream> Timeout<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, limit: Duration, ends: bool) -> Self {
        Self { stream: stream.fuse(), countdown: Countdown::new(wheel, limit, true), ends }
    }

    /// The instant at which the error comes if no item comes before; `None` if the error of the current gap has come,
    /// or if the stream within has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let will_come = self.countdown.is_running && !self.stream.is_done();
        will_come.then(|| self.countdown.timer.sleep.deadline())
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.ends && !this.countdown.is_running {
            return Poll::Ready(None);
        }
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(next) = this.stream.poll_next(cx) {
            if next.is_some() {
                this.countdown.start();
            }
            return Poll::Ready(next.map(Ok));
        }
        this.countdown.poll(had_budget, cx).map(|()| Some(Err(Elapsed::default())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        match self.ends {
            _ if self.is_terminated() => (0, Some(0)),
            // The error may take the place of all items, or come after the last.
            true => (lower.min(1), upper.and_then(|items| items.checked_add(1))),
            // An error after each item, and one before the first if there is time for it.
            false => {
                let before_first = usize::from(self.countdown.is_running);
                (lower, upper.and_then(|items| items.checked_mul(2)?.checked_add(before_first)))
            }
        }
    }
}

adapter! {
    /// The stream of [`StreamTimeExt::timeout_repeating_on`](super::StreamTimeExt::timeout_repeating_on).
    TimeoutRepeating {
        interval: Interval,
    }
    |this| this.stream.is_terminated()
}

impl<S: Stream> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        Self { stream: stream.fuse(), interval }
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
            }
            return Poll::Ready(next.map(Ok));
        }
        let mut tick = poll_fn(|cx| this.interval.poll_tick(cx));
        // Even a stream that spent the rest of the budget cannot escape its deadline.
        let tick = if had_budget && !coop::has_budget_remaining() {
            pin!(coop::unconstrained(tick)).poll(cx)
        } else {
            Pin::new(&mut tick).poll(cx)
        };
        tick.map(|_| Some(Err(Elapsed::default())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // There may be any number of errors, until the end.
        (lower, upper.filter(|_| self.stream.is_done()))
    }
}

adapter! {
    /// The stream of [`StreamTimeExt::throttle_on`](super::StreamTimeExt::throttle_on).
    Throttle {
        // Runs from an item on for as long as the next one has to wait.
        countdown: Countdown,
    }
    |this| this.stream.is_terminated()
}

impl<S: Stream> Throttle<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, distance: Duration) -> Self {
        Self { stream: stream.fuse(), countdown: Countdown::new(wheel, distance, false) }
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if this.countdown.is_running {
            ready!(this.countdown.poll(coop::has_budget_remaining(), cx));
        }
        let next = ready!(this.stream.poll_next(cx));
        if next.is_some() && !this.countdown.duration.is_zero() {
            this.countdown.start();
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

adapter! {
    /// The stream of [`StreamTimeExt::chunks_timeout_on`](super::StreamTimeExt::chunks_timeout_on).
    ChunksTimeout {
        max_size: usize,
        chunk: Vec<S::Item>,
        // The size of the last chunk, which the next one reserves at once.
        last_size: usize,
        // Runs from a chunk's first item on.
        countdown: Countdown,
    }
    |this| this.stream.is_terminated() && this.chunk.is_empty()
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, wheel: &TimingWheel, max_size: usize, duration: Duration) -> Self {
        assert!(max_size > 0, "chunk size must be at least 1, got 0");
        let countdown = Countdown::new(wheel, duration, false);
        Self { stream: stream.fuse(), max_size, chunk: Vec::new(), last_size: 0, countdown }
    }

    /// Takes out the items of the chunk that is not full yet.
    #[must_use = "these items are in no chunk"]
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        take(self.project().chunk)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        while this.chunk.len() < *this.max_size {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.chunk.is_empty() {
                        this.countdown.start();
                        this.chunk.reserve_exact(*this.last_size);
                    }
                    this.chunk.push(item);
                }
                Poll::Ready(None) if this.chunk.is_empty() => return Poll::Ready(None),
                Poll::Pending if this.chunk.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    ready!(this.countdown.poll(had_budget, cx));
                    break;
                }
                Poll::Ready(None) => break,
            }
        }
        *this.last_size = this.chunk.len();
        Poll::Ready(Some(take(this.chunk)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        let waiting = self.chunk.len();
        // The fewest chunks are full. The most have one item each, except the first, which has the items that wait already.
        let fewest = lower.saturating_add(waiting).div_ceil(self.max_size);
        (fewest, upper.and_then(|items| items.checked_add(usize::from(waiting > 0))))
    }
}

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
