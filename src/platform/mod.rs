//! What the engine takes from the system: locks and atomics (which models replace), the clock, and wakers.

pub(crate) mod clock;
pub(crate) mod sync;
pub(crate) mod wakers;
