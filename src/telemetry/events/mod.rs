//! What a wheel tells as it happens: events of the crate `tracing` with the feature of that name, nothing without it.

#[cfg(not(feature = "tracing"))]
mod silent;
#[cfg(feature = "tracing")]
mod told;

#[cfg(not(feature = "tracing"))]
pub(crate) use silent::Events;
#[cfg(feature = "tracing")]
pub(crate) use told::Events;
