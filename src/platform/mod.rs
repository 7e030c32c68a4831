//! What the other wings take from std, tokio and the processor: locks, clocks, threads, wakers, panics.

pub(crate) mod catch_panic;
pub(crate) mod clock;
pub(crate) mod shard_of_thread;
pub(crate) mod sync;
pub(crate) mod waker_id;
