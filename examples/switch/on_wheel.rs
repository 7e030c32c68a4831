//! The server on `timingwheel::time`.

use timingwheel::time;

#[path = "server.rs"]
pub(crate) mod server;
