//! What is counted and noted as it happens. `monitor` shows it to users.

pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod notes;
pub(crate) mod stats;
