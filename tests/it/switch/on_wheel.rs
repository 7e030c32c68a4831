//! The code below `same`, on `timingwheel::time`.

use timingwheel::time;

#[path = "same/mod.rs"]
pub(crate) mod same;
