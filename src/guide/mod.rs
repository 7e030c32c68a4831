//! Pages without code: how to switch, and what to rely on.

pub mod coming_from;
pub mod migration;
pub mod promises;
