//! Counts and notes, taken as things happen. `monitor` is the public page about them.

pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod notes;
pub(crate) mod stats;
