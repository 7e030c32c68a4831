//! The code below `same`, on `tokio::time`.

use tokio::time;

#[path = "same/mod.rs"]
pub(crate) mod same;
