//! Runs `same` on our queue.

use timingwheel::time;

#[path = "same.rs"]
mod same;
#[path = "script.rs"]
pub(crate) mod script;
