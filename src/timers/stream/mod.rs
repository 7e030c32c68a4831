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
//! The names end in `_on`, so that [`StreamTimeExt`] can be imported beside the `StreamExt` of tokio-stream and that of
//! futures. For the wheel of the current runtime pass [`time::wheel()`](crate::time::wheel):
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
//! # What they have in common
//!
//! - **One timer for each adapter.** An item postpones the timer's deadline, and the timer's entry stays in its bucket.
//!   That is as cheap as a [`Sleep::reset`](crate::Sleep::reset) to a later deadline, and nothing is allocated. The
//!   timer is registered when the stream is first pending, in the shard of the thread that made the adapter. So make
//!   each adapter in the task that polls it, if there are many. After an item has come, the timer may wake its task
//!   once for nothing.
//! - **The inner stream is polled first**, and only then the deadline. So an item that is ready at once never touches
//!   the wheel, and an item that becomes ready together with a deadline wins. [`Throttle`] polls its deadline first.
//! - **Cooperative budget**: an error or a tick spends a unit of it, as [`Sleep`](crate::Sleep) does. An item does not:
//!   the stream that made it has spent one.
//! - **Cancel safety**: any future that waits for the next item may be dropped, and nothing is lost. Dropping the
//!   adapter drops the inner stream and removes the timer.
//! - **The end**: when the inner stream ends, the adapter ends, and does not poll the inner stream again
//!   ([`FusedStream`]). The ended stream is kept, so that `into_inner` can return it.
//! - Adapters are [`Send`], [`Sync`] and [`Unpin`] if the inner stream is. For [`ChunksTimeout`] its items must be too.
//!
//! # Without a timer
//!
//! A wheel may have ended, by `shutdown` or with its runtime, or have [`max_pending`](crate::Builder::max_pending)
//! timers already. Limits, chunks and distances keep their times then, by one of tokio's timers, as a
//! [timeout](crate::TimingWheel::timeout) does, until the next item. Only [`TimeoutRepeating`] and
//! [`IntervalStream`] panic, as their interval does.
//!
//! # Differences from tokio-stream
//!
//! Deadlines are those of tokio-stream 0.1, and on a paused clock everything comes at the same instants.
//!
//! | item | here | because |
//! |---|---|---|
//! | the error | [`Elapsed`](crate::Elapsed), as for a timeout of a future; tokio-stream has one of its own | one type is enough |
//! | after the runtime's end | limits hold [without a timer](#without-a-timer); tokio-stream's all panic | a limit should hold wherever it can |
//! | limits that reach beyond what an `Instant` can hold | never come; some of tokio-stream's panic | the wheel takes them for endless |
//! | a stream within that spends the whole budget each time it is polled | cannot escape its limit | as with a timeout of a future |
//! | the stream within, once it has ended | is kept; tokio-stream's drop it | so that `get_ref` and `into_inner` work at any time |
//! | [`ChunksTimeout`] | starts with no memory; tokio-stream's takes that of `max_size` items for each chunk | a `max_size` may be there for safety only |
//! | [`Throttle`]'s `size_hint` | that of the stream within | it is right, because no item is lost |
//! | `idle_timeout_on`, `set_limit`, `reset`, `deadline` | exist | users ask for them |
//! | [`FusedStream`], `get_ref`, `get_mut`, `into_inner` | for all | `select!` in a loop, and changing the stream within |
//!
//! [`FusedStream`]: futures::stream::FusedStream

mod adapters;
mod ext;

pub use adapters::{ChunksTimeout, IntervalStream, Throttle, Timeout, TimeoutRepeating};
pub use ext::StreamTimeExt;
