//! Runs `same` on tokio-util's queue.

use tokio_util::time;

#[path = "same.rs"]
mod same;
#[path = "script.rs"]
pub(crate) mod script;
