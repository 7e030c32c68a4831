//! What the engine stands on: locks and atomics (which models replace), the clock, and wakers.

pub(crate) mod clock;
pub(crate) mod sync;
pub(crate) mod wakers;
