//! tokio-util's, for what is the same on both.

use tokio_util::time;

#[path = "same.rs"]
mod same;
#[path = "script.rs"]
pub(crate) mod script;
