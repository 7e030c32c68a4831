#![doc = include_str!("../README.md")]

pub mod aws_smithy;
pub mod axum;
pub mod backon;
pub mod deadline;
pub mod quinn;
pub mod reqwest;
pub mod tonic;
