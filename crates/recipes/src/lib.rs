#![doc = include_str!("../README.md")]

pub mod aws_smithy;
pub mod axum;
pub mod backon;
pub mod deadline;
pub mod metrics;
pub mod quinn;
pub mod reqwest;
pub mod reusable;
pub mod tonic;
pub mod tracing;
