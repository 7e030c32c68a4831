//! Pages without code: how to switch, what to rely on, and how libraries take a wheel.

pub mod coming_from;
pub mod migration;
pub mod promises;
pub mod recipes;
