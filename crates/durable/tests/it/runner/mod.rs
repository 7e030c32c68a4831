//! The promises of durable timers, on the store in memory and tokio's paused clock.

mod clocks;
mod handlers;
mod moves;
mod outside;
mod owners;
mod panics;
mod places;
mod series;
mod stops;
mod support;
mod suspects;
mod together;
mod windows;
