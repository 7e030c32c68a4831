//! The engine's base: locks and atomics (which models replace), the clock, and wakers.

pub(crate) mod clock;
#[cfg(not(all(test, loom)))]
mod short_lock;
pub(crate) mod sync;
pub(crate) mod wakers;
