//! Wheels for other crates: hyper and metrics. Each module is a feature.

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
