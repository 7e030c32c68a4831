//! What timers are used for: work that runs later, and operations that wait for a condition.

pub mod job;
pub mod purgatory;
