//! Wheels for other crates: hyper, tower and metrics. Each module is a feature.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "tower")]
pub mod tower;
