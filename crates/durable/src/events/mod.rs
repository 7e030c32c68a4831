//! Events: those of the crate `tracing` with the feature of that name, none without it.
//!
//! Subscribers are users' code. They are called under no lock, and their panics do not reach the caller.

#[cfg(feature = "tracing")]
mod with_tracing;
#[cfg(not(feature = "tracing"))]
mod without_tracing;

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::Events;
#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::Events;
