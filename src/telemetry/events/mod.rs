//! Events of the crate `tracing`. Without the feature `tracing` the functions do nothing.

#[cfg(feature = "tracing")]
mod with_tracing;
#[cfg(not(feature = "tracing"))]
mod without_tracing;

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::Events;
#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::Events;
