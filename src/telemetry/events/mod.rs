//! What a wheel reports as it happens: with the feature `tracing`, events of the crate of that name; without it,
//! nothing.

#[cfg(feature = "tracing")]
mod with_tracing;
#[cfg(not(feature = "tracing"))]
mod without_tracing;

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::Events;
#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::Events;
