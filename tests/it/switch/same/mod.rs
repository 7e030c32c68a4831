//! Code that uses `time` and does not know which crate's. Each public function notes events in a trace.

use super::time;

pub(crate) mod clock;
pub(crate) mod interval;
pub(crate) mod missed;
pub(crate) mod panics;
pub(crate) mod programs;
pub(crate) mod reset;
pub(crate) mod script;
pub(crate) mod signatures;
pub(crate) mod sleep;
pub(crate) mod timeout;
pub(crate) mod traits;
