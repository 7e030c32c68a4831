//! What do the timers of 100,000 idle connections cost when they may be late?
//!
//! Each connection has a limit from half a minute to five minutes, and is active three times in that, on average: then
//! its timer is moved to the whole limit from then. Of twenty limits one passes in silence: the timer fires, and the
//! next activity is that of a new connection, which arms it anew. Exact timers and those with a tolerance of 12.5 % are
//! given the same activity.

mod connections;
mod core;
mod wheel;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "tolerance_core",
            question: "What does it save the core that timers may be late?",
            run: core::run,
        },
        Case {
            name: "tolerance_wheel",
            question: "What does it save a process with 100,000 idle connections that timers may be late?",
            run: wheel::run,
        },
    ]
}

/// The sides, in this order.
const SIDES: [&str; 2] = ["exact", "a tolerance of 12.5 %"];
const EXACT: usize = 0;
const TOLERANT: usize = 1;

/// That of Linux.
const SHARE: f64 = 0.125;
/// What the CPU time of tolerant timers shall be at most, of that of exact ones.
const TARGET: f64 = 0.5;
