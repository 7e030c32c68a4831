//! What connects wheels to other crates. Each is a feature.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "tower")]
pub mod tower;
