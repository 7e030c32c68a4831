//! What a wheel tells as it happens: events of the crate `tracing` with the feature of that name, nothing without it.

#[cfg(feature = "tracing")]
mod with_tracing;
#[cfg(not(feature = "tracing"))]
mod without_tracing;

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::Events;
#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::Events;
