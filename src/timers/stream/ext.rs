//! The methods of streams.

use std::time::Duration;

use futures::stream::Stream;

use super::{ChunksTimeout, Throttle, Timeout, TimeoutRepeating};
use crate::handle::TimingWheel;
use crate::timers::interval::Interval;

/// Time limits for every [`Stream`].
///
/// The [module's page](super) says what they have in common, and how they differ from tokio-stream's.
pub trait StreamTimeExt: Stream + Sized {
    /// All items, and an error for each gap that is longer than `limit`. After an error the stream goes on.
    ///
    /// The first gap begins with this call, each later gap with an item. A gap gives one error, however long it is. With
    /// [`timeout_repeating_on`](Self::timeout_repeating_on) a gap gives error after error. With
    /// [`idle_timeout_on`](Self::idle_timeout_on) the first error ends the stream. An item that is ready comes first, even
    /// if it is late. With a `limit` of more than [292 years](crate::Sleep::deadline) there are no errors.
    ///
    /// # Precision
    /// As [`TimingWheel::sleep`].
    ///
    /// # Errors
    /// [`Elapsed`](crate::Elapsed), as an item, if a gap is too long.
    ///
    /// # Panics
    /// Only if the stream within does, or if [no timer can run](crate::stream#without-a-timer), not even tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use futures::{StreamExt, stream};
    /// use timingwheel::{Elapsed, TimingWheel, stream::StreamTimeExt};
    ///
    /// let wheel = TimingWheel::new();
    /// let items = stream::iter([1, 30, 2]).then(|seconds| {
    ///     let sleep = wheel.sleep(Duration::from_secs(seconds));
    ///     async move {
    ///         sleep.await;
    ///         seconds
    ///     }
    /// });
    /// let mut items = pin!(items.timeout_on(&wheel, Duration::from_secs(10)));
    ///
    /// assert_eq!(items.next().await, Some(Ok(1)));
    /// assert_eq!(items.next().await, Some(Err(Elapsed::default())));
    /// assert_eq!(items.next().await, Some(Ok(30)));
    /// assert_eq!(items.next().await, Some(Ok(2)));
    /// assert_eq!(items.next().await, None);
    /// # }
    /// ```
    fn timeout_on(self, wheel: &TimingWheel, limit: Duration) -> Timeout<Self> {
        Timeout::new(self, wheel, limit, false)
    }

    /// All items, until a gap is longer than `limit`: then one error, and the end.
    ///
    /// Use it for a connection that is closed when nothing has come for a while. The first gap begins with this call,
    /// each later gap with an item. An item that is ready comes first, even if it is late. After the error the stream
    /// within is not polled any more. It is kept: [`into_inner`](Timeout::into_inner) returns it. With a `limit` of more
    /// than [292 years](crate::Sleep::deadline) there is no error.
    ///
    /// # Precision
    /// As [`TimingWheel::sleep`].
    ///
    /// # Errors
    /// [`Elapsed`](crate::Elapsed), as the last item, if a gap is too long.
    ///
    /// # Panics
    /// Only if the stream within does, or if [no timer can run](crate::stream#without-a-timer), not even tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use futures::StreamExt;
    /// use timingwheel::{Elapsed, TimingWheel, stream::StreamTimeExt};
    /// use tokio::sync::mpsc;
    /// use tokio_stream::wrappers::ReceiverStream;
    ///
    /// let wheel = TimingWheel::new();
    /// let (peer, messages) = mpsc::channel(8);
    /// peer.send("hello").await.unwrap();
    ///
    /// let mut messages = ReceiverStream::new(messages).idle_timeout_on(&wheel, Duration::from_secs(60));
    /// assert_eq!(messages.next().await, Some(Ok("hello")));
    /// assert_eq!(messages.next().await, Some(Err(Elapsed::default())));
    /// assert_eq!(messages.next().await, None);
    /// # drop(peer);
    /// # }
    /// ```
    fn idle_timeout_on(self, wheel: &TimingWheel, limit: Duration) -> Timeout<Self> {
        Timeout::new(self, wheel, limit, true)
    }

    /// All items, and an error at each tick of `interval`, which starts again with each item.
    ///
    /// So a gap gives an error for each period that it lasts. The first error comes at the interval's first tick:
    /// [`TimingWheel::interval`] ticks at once, [`TimingWheel::interval_at`] at a time of your choice. Each item
    /// [resets](Interval::reset) the interval. An item that is ready comes first, even if it is late. The interval's
    /// [`MissedTickBehavior`](Interval::set_missed_tick_behavior) decides about missed ticks.
    ///
    /// # Precision
    /// As [`TimingWheel::interval`].
    ///
    /// # Errors
    /// [`Elapsed`](crate::Elapsed), as an item, at each tick.
    ///
    /// # Panics
    /// As [`Interval::tick`], if the wheel has ended or is full, or if the stream within does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use futures::{StreamExt, stream};
    /// use timingwheel::{TimingWheel, stream::StreamTimeExt};
    /// use tokio::time::Instant;
    ///
    /// let period = Duration::from_secs(20);
    /// let start = Instant::now();
    /// let interval = TimingWheel::new().interval_at(start + period, period);
    ///
    /// let mut silence = stream::pending::<()>().timeout_repeating_on(interval);
    /// for n in 1..=3 {
    ///     assert!(silence.next().await.is_some_and(|item| item.is_err()));
    ///     assert_eq!(start.elapsed(), period * n);
    /// }
    /// # }
    /// ```
    fn timeout_repeating_on(self, interval: Interval) -> TimeoutRepeating<Self> {
        TimeoutRepeating::new(self, interval)
    }

    /// All items, each of them at least `distance` after the one before.
    ///
    /// The first item does not wait. The distance counts from the moment at which an item was handed out. The stream within
    /// is not polled before the distance has passed. A `distance` of zero lets everything through. With a `distance` of
    /// more than [292 years](crate::Sleep::deadline) the second item never comes.
    ///
    /// # Precision
    /// As [`TimingWheel::sleep`].
    ///
    /// # Panics
    /// Only if the stream within does, or if [no timer can run](crate::stream#without-a-timer), not even tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use futures::{StreamExt, stream};
    /// use timingwheel::{TimingWheel, stream::StreamTimeExt};
    /// use tokio::time::Instant;
    ///
    /// let wheel = TimingWheel::new();
    /// let start = Instant::now();
    /// let requests = stream::iter(["one", "two", "three"]).throttle_on(&wheel, Duration::from_millis(100));
    /// let sent: Vec<_> = requests.map(|_| start.elapsed().as_millis()).collect().await;
    /// assert_eq!(sent, [0, 100, 200]);
    /// # }
    /// ```
    fn throttle_on(self, wheel: &TimingWheel, distance: Duration) -> Throttle<Self> {
        Throttle::new(self, wheel, distance)
    }

    /// The items in chunks. A chunk is handed out when it has `max_size` items, when its first item is `duration` old, or
    /// when the stream within ends. No chunk is empty.
    ///
    /// The adapter looks at the time only when the stream within has no item ready. Each chunk begins with room for as
    /// many items as the last one had. A `duration` of more than [292 years](crate::Sleep::deadline) never ends a chunk.
    ///
    /// # Precision
    /// As [`TimingWheel::sleep`].
    ///
    /// # Cancel safety
    /// Dropping the stream drops the items of an unfinished chunk. [`into_remainder`](ChunksTimeout::into_remainder) takes
    /// them out before.
    ///
    /// # Panics
    /// If `max_size` is zero. Polling panics only if the stream within does, or if [no timer can
    /// run](crate::stream#without-a-timer), not even tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{pin::pin, time::Duration};
    /// use futures::{StreamExt, stream};
    /// use timingwheel::{TimingWheel, stream::StreamTimeExt};
    ///
    /// let wheel = TimingWheel::new();
    /// let rows = stream::iter(1..=5).chain(stream::pending());
    /// let mut writes = pin!(rows.chunks_timeout_on(&wheel, 3, Duration::from_millis(100)));
    ///
    /// assert_eq!(writes.next().await, Some(vec![1, 2, 3])); // At once.
    /// assert_eq!(writes.next().await, Some(vec![4, 5])); // After 100 ms.
    /// # }
    /// ```
    #[track_caller]
    fn chunks_timeout_on(
        self,
        wheel: &TimingWheel,
        max_size: usize,
        duration: Duration,
    ) -> ChunksTimeout<Self> {
        ChunksTimeout::new(self, wheel, max_size, duration)
    }
}

impl<S: Stream> StreamTimeExt for S {}
