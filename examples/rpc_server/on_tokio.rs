//! On `tokio::time`.

use tokio::time;

#[path = "server.rs"]
pub(crate) mod server;
