//! Async timers for tokio on a hierarchical timing wheel.

mod alarm;
mod bound;
mod builder;
mod clock;
mod driver;
mod error;
mod shard;
mod sleep;
mod stats;
mod sync;
mod tick;
mod timeout;
mod timing_wheel;
pub mod wheel;

pub use builder::Builder;
pub use error::{BuildError, Elapsed, Error, TryTimeoutError};
pub use sleep::Sleep;
pub use stats::Stats;
pub use timeout::Timeout;
pub use timing_wheel::TimingWheel;
