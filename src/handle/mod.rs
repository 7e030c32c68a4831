//! The handle of a wheel, its builder and profiles, and the wheel that belongs to each runtime.

pub(crate) mod builder;
pub(crate) mod profile;
pub(crate) mod runtime_wheel;
pub(crate) mod timing_wheel;
