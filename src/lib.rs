//! x
mod tick;
pub mod wheel;
