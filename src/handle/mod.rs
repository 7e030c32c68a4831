//! The handle of a wheel, how it is built, and the wheel that each runtime has of its own.

pub(crate) mod builder;
pub(crate) mod profile;
pub(crate) mod runtime_wheel;
pub(crate) mod timing_wheel;
