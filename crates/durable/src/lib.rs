//! Timers that outlive the process.

mod backoff;
mod builder;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod durable;
mod error;
mod handler;
mod id;
mod kind;
mod memory;
mod missed;
mod plan;
#[cfg(feature = "redb")]
mod redb;
mod runner;
mod save;
mod saver;
mod shared;
mod stats;
pub mod store;
mod tables;
mod window;

pub use backoff::Backoff;
pub use builder::Builder;
pub use clock::{Clock, SetClock, SystemClock};
pub use durable::{Cancelled, Durable, Moved};
pub use error::Error;
pub use handler::{Answer, HandlerError, HandlerResult, Lost, Run};
pub use id::{Place, TimerId, TimerIdError};
pub use kind::Kind;
pub use memory::MemoryStore;
pub use missed::{Missed, MissedError};
#[cfg(feature = "redb")]
pub use redb::{RedbError, RedbOptions, RedbStore};
pub use runner::Stopped;
pub use save::Saving;
pub use stats::Stats;
