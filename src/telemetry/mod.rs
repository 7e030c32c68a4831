//! What is counted and noted as it happens. `monitor` tells it.

pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod notes;
pub(crate) mod stats;
