//! The streams that [`StreamTimeExt`](super::StreamTimeExt) makes. Each has a stream and an alarm: a [`Countdown`], or an
//! interval.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{Fuse, FusedStream, Stream, StreamExt};
use pin_project_lite::pin_project;
use tokio::task::coop;
use tokio::time::Instant;

use crate::error::Elapsed;
use crate::handle::TimingWheel;
use crate::platform::clock::nanos;
use crate::timers::interval::Interval;
use crate::timers::sleep::Sleep;
use crate::timers::timeout::poll_deadline;
use crate::timers::tolerance::Tolerance;
use crate::wheel::Nanos;

/// A time limit that starts again and again, on one timer that is moved. The timer's entry stays in the wheel in between.
#[derive(Debug)]
struct Countdown {
    duration: Duration,
    sleep: Sleep,
    is_running: bool,
    tolerance: Option<Tolerance>,
}

impl Countdown {
    /// One that runs from now on, or has yet to be started.
    fn new(wheel: &TimingWheel, duration: Duration, is_running: bool) -> Self {
        Self { duration, sleep: wheel.sleep(duration), is_running, tolerance: None }
    }

    /// Starts, running or not, for `duration` from now.
    fn start(&mut self, duration: Duration) {
        let now = self.sleep.clock().now();
        self.run(now, now.after(duration));
    }

    /// Starts, running or not, until `deadline`.
    fn start_until(&mut self, deadline: Instant) {
        self.run(self.sleep.clock().now(), nanos(deadline));
    }

    fn run(&mut self, now: Nanos, deadline: Nanos) {
        if let Some(tolerance) = self.tolerance {
            let delay = Duration::from_nanos(deadline.0.saturating_sub(now.0));
            self.sleep.set_tolerance(Tolerance::time(tolerance.of(delay)));
        }
        self.sleep.move_to(deadline, Some(now));
        self.is_running = true;
    }

    /// For each end, also that of the current run.
    fn set_tolerance(&mut self, tolerance: Tolerance) {
        self.tolerance = Some(tolerance);
        if self.is_running {
            self.start_until(self.sleep.deadline());
        }
    }

    /// Ready, once, when it has ended or cannot run. `had_budget` tells whether the task had any before the stream was
    /// polled.
    fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<Elapsed> {
        if !self.is_running {
            return Poll::Pending;
        }
        let elapsed = ready!(poll_deadline(&mut self.sleep, had_budget, cx));
        self.is_running = false;
        Poll::Ready(elapsed)
    }
}

/// What all adapters have.
macro_rules! access {
    ($Adapter:ident) => {
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

            /// The stream within, as [`get_mut`](Self::get_mut), for streams that must not be moved.
            #[must_use]
            pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
                self.project().stream.get_pin_mut()
            }

            /// The stream within, without the rest.
            #[must_use]
            pub fn into_inner(self) -> S {
                self.stream.into_inner()
            }
        }
    };
    ($Adapter:ident with tolerance) => {
        access!($Adapter);

        impl<S: Stream> $Adapter<S> {
            /// With a tolerance: each gap or chunk may end late, by a time or by a share of its time. See [`Tolerance`].
            pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
                self.countdown.set_tolerance(tolerance);
                self
            }
        }
    };
}

pin_project! {
    /// The stream of [`StreamTimeExt::timeout_on`](super::StreamTimeExt::timeout_on), and of
    /// [`idle_timeout_on`](super::StreamTimeExt::idle_timeout_on), which ends with its first error.
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct Timeout<S> {
        #[pin]
        stream: Fuse<S>,
        // Runs unless the error of the current gap has been given.
        countdown: Countdown,
        ends: bool,
    }
}

access!(Timeout with tolerance);

impl<S: Stream> Timeout<S> {
    pub(super) fn new(stream: S, wheel: &TimingWheel, limit: Duration, ends: bool) -> Self {
        Self { stream: stream.fuse(), countdown: Countdown::new(wheel, limit, true), ends }
    }

    /// How long a gap may be.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.countdown.duration
    }

    /// Sets how long a gap may be, from the next item on. For the current gap see [`reset`](Self::reset).
    ///
    /// If the adapter is not pinned, call `Pin::new(&mut items).set_limit(limit)`, as for each method that takes
    /// `Pin<&mut Self>`.
    pub fn set_limit(self: Pin<&mut Self>, limit: Duration) {
        self.project().countdown.duration = limit;
    }

    /// The instant at which the error comes if no item comes before; `None` if the error of the current gap has come,
    /// or if the stream within has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let will_come = self.countdown.is_running && !self.stream.is_done();
        will_come.then(|| self.countdown.sleep.deadline())
    }

    /// Moves the deadline of the current gap. If its error has come, there will be another, and a stream that had ended
    /// by its error goes on.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.project().countdown.start_until(deadline);
    }

    /// Moves the deadline of the current gap to `duration` from now, as [`reset`](Self::reset) does. One of more than
    /// [292 years](crate::Sleep::deadline) never comes.
    pub fn reset_after(self: Pin<&mut Self>, duration: Duration) {
        self.project().countdown.start(duration);
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
                this.countdown.start(this.countdown.duration);
            }
            return Poll::Ready(next.map(Ok));
        }
        this.countdown.poll(had_budget, cx).map(|elapsed| Some(Err(elapsed)))
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

/// Terminated at the end of the stream within. That of [`idle_timeout_on`](super::StreamTimeExt::idle_timeout_on) is
/// terminated by its error too, until it is [moved](Timeout::reset) to another deadline.
impl<S: Stream> FusedStream for Timeout<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated() || (self.ends && !self.countdown.is_running)
    }
}

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

access!(TimeoutRepeating);

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

pin_project! {
    /// The stream of [`StreamTimeExt::throttle_on`](super::StreamTimeExt::throttle_on).
    #[must_use = "a stream does nothing unless it is polled"]
    #[derive(Debug)]
    pub struct Throttle<S> {
        #[pin]
        stream: Fuse<S>,
        // Runs from an item on for as long as the next one has to wait.
        countdown: Countdown,
    }
}

access!(Throttle with tolerance);

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
            // Panics if it cannot run.
            ready!(Pin::new(&mut this.countdown.sleep).poll(cx));
            this.countdown.is_running = false;
        }
        let next = ready!(this.stream.poll_next(cx));
        if next.is_some() && !this.countdown.duration.is_zero() {
            this.countdown.start(this.countdown.duration);
        }
        Poll::Ready(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: Stream> FusedStream for Throttle<S> {
    fn is_terminated(&self) -> bool {
        self.stream.is_terminated()
    }
}

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

access!(ChunksTimeout with tolerance);

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, wheel: &TimingWheel, max_size: usize, duration: Duration) -> Self {
        assert!(max_size > 0, "chunk size must be at least 1, got 0");
        let countdown = Countdown::new(wheel, duration, false);
        Self { stream: stream.fuse(), max_size, chunk: Vec::new(), last_size: 0, countdown }
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
                        this.countdown.start(this.countdown.duration);
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
                    let _ = ready!(this.countdown.poll(had_budget, cx));
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
