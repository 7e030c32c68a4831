//! Time limits for streams.
//!
//! | you want to | use | items |
//! |---|---|---|
//! | be told of each gap that is too long | [`timeout_on`](StreamTimeExt::timeout_on) | `Result<T, Elapsed>` |
//! | be told again and again while a gap lasts | [`timeout_repeating_on`](StreamTimeExt::timeout_repeating_on) | `Result<T, Elapsed>` |
//! | end a stream that has been silent for too long | [`idle_timeout_on`](StreamTimeExt::idle_timeout_on) | `Result<T, Elapsed>` |
//! | keep items at a distance | [`throttle_on`](StreamTimeExt::throttle_on) | `T` |
//! | collect items, for a time and up to a number | [`chunks_timeout_on`](StreamTimeExt::chunks_timeout_on) | `Vec<T>` |
//! | have an interval's ticks as a stream | [`IntervalStream`] | `Instant` |
//!
//! The names end in `_on`, so that you can import [`StreamTimeExt`] beside the `StreamExt` of tokio-stream and of futures.
//! For the wheel of the current runtime pass [`time::wheel()`](crate::time::wheel):
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use std::time::Duration;
//! use futures::{StreamExt, stream};
//! use timingwheel::{stream::StreamTimeExt, time};
//!
//! let items = stream::iter([1, 2, 3]).timeout_on(&time::wheel(), Duration::from_secs(1));
//! let items: Vec<_> = items.map(|item| item.expect("in time")).collect().await;
//! assert_eq!(items, [1, 2, 3]);
//! # }
//! ```
//!
//! # In common
//!
//! - **One timer for each adapter.** An item moves the timer, which costs as little as a
//!   [`Sleep::reset`](crate::Sleep::reset) to later, and allocates nothing. The timer is armed when the stream is
//!   first pending, in the [shard](crate::Builder::shards) of the thread that made the adapter. So make an adapter in the
//!   task that polls it. After an item the timer may wake its task once for nothing.
//! - **The inner stream is polled first**, then the deadline. So an item that becomes ready together with a deadline
//!   wins. [`Throttle`] polls its deadline first.
//! - **Cooperative budget**: an error or a tick spends a unit, as [`Sleep`](crate::Sleep) does. An item does not, because
//!   the inner stream has spent one for it.
//! - **Cancel safety**: dropping a future that waits for the next item loses nothing. Dropping the adapter drops the
//!   inner stream and removes the timer.
//! - **The end**: when the inner stream ends, the adapter ends, and does not poll the inner stream again
//!   ([`FusedStream`]). The ended stream is kept, so that `into_inner` can return it.
//! - Adapters are [`Send`], [`Sync`] and [`Unpin`] if the inner stream is. For [`ChunksTimeout`] its items must be too.
//!
//! # Without a timer
//!
//! A wheel may have ended, or have [`max_pending`](crate::Builder::max_pending) timers already. Limits, chunks and
//! distances then wait by one of tokio's timers until the next item, as a [timeout](crate::TimingWheel::timeout) does. They
//! panic if tokio has no timer either: outside a runtime, or without `enable_time`.
//! [`TimeoutRepeating`] and [`IntervalStream`] always panic, as their interval does.
//!
//! # Differences from tokio-stream
//!
//! On a paused clock everything comes at the same instants as with tokio-stream 0.1. These are the differences:
//!
//! - The error is [`Elapsed`](crate::Elapsed), as for a timeout of a future. tokio-stream has an error of its own.
//! - After the runtime's end limits [still hold](#without-a-timer). tokio-stream's adapters panic.
//! - A limit beyond the last possible `Instant` never comes. Some of tokio-stream's adapters panic.
//! - An inner stream that always spends the whole budget cannot escape its limit.
//! - An inner stream that has ended is kept, for `get_ref` and `into_inner`. tokio-stream's adapters drop it.
//! - [`ChunksTimeout`] starts without memory. tokio-stream's takes memory for `max_size` items with each chunk.
//! - [`Throttle`] has the `size_hint` of the inner stream.
//! - Only here: `idle_timeout_on`, `deadline`, and for all adapters [`FusedStream`], `get_ref`, `get_mut`,
//!   `get_pin_mut` and `into_inner`.
//!
//! [`FusedStream`]: futures::stream::FusedStream

mod adapters;
mod ext;

pub use adapters::{ChunksTimeout, IntervalStream, Throttle, Timeout, TimeoutRepeating};
pub use ext::StreamTimeExt;
