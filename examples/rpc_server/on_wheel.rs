//! On `timingwheel::time`.

use timingwheel::time;

#[path = "server.rs"]
pub(crate) mod server;
