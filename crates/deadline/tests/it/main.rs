//! Deadlines by their public API, on tokio's paused clock.

mod ends;
mod model;
mod reusable;
mod threads;
mod told;
#[cfg(feature = "wire")]
mod wire;

use std::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
