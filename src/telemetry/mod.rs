//! What is counted as it happens, and the events that tell of it. `monitor` has limits for it, `integrations` hand it on.

pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod stats;
