//! Code that uses `time` and does not know which crate's. Each public function notes events in a trace.

use super::time;

pub(crate) mod by_hand;
pub(crate) mod panics;
pub(crate) mod script;
pub(crate) mod signatures;
pub(crate) mod traits;
