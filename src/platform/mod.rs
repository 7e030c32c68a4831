//! What the other wings take from std, tokio and the processor: locks, clocks, threads, wakers, panics.

pub(crate) mod clock;
pub(crate) mod contain;
pub(crate) mod placement;
pub(crate) mod sync;
pub(crate) mod waker_id;
