//! Ours, for what is the same on both.

use timingwheel::time;

#[path = "same.rs"]
mod same;
#[path = "script.rs"]
pub(crate) mod script;
