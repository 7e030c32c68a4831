//! What timers cost on a wheel, divided by what they cost on `tokio::time`.
//!
//! Each case proves, by the wheel's own counts, that its timers reached the wheel; that they reached tokio's is seen by
//! their first poll being pending.

mod arming;
mod blocked;
mod crowds;
mod firing;
mod idle;
mod lateness;
mod memory;
mod moving;
mod pauses;
mod polling;
mod rig;
mod workers;

use crate::support::{Case, Comparison, Table};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "tokio_arming",
            question: "What does it cost to make and to drop a timer?",
            run: arming::run,
        },
        Case { name: "tokio_moving", question: "What does it cost to move a deadline?", run: moving::run },
        Case { name: "tokio_polling", question: "What do the polls between cost?", run: polling::run },
        Case {
            name: "tokio_workers",
            question: "How many timeouts do tasks make in a second, on more and more workers?",
            run: workers::run,
        },
        Case {
            name: "tokio_crowds",
            question: "What do timers cost where there are many more threads than cores?",
            run: crowds::run,
        },
        Case {
            name: "tokio_memory",
            question: "How much memory does a pending timer take?",
            run: memory::run,
        },
        Case {
            name: "tokio_firing",
            question: "How much CPU time does a timer take that fires?",
            run: firing::run,
        },
        Case {
            name: "tokio_pauses",
            question: "How long is whoever arms a timer held up, at worst, while a million fire?",
            run: pauses::run,
        },
        Case { name: "tokio_lateness", question: "How late do timers fire?", run: lateness::run },
        Case {
            name: "tokio_idle",
            question: "How often does one far timer wake the process?",
            run: idle::run,
        },
        Case {
            name: "tokio_blocked",
            question: "How late is a timer whose worker is blocked?",
            run: blocked::run,
        },
    ]
}

/// The place of a ratio in a row of [`targets`].
const RATIO: usize = 3;

/// All cases here add to it, and those of `by_name`.
pub(crate) fn targets() -> Table {
    Table::new("Targets", ["what", "ours", "tokio", "ratio", "target"])
        .ratio("ratio", "ours", "tokio")
        .note("Target: what the ratio shall be at most, or what ours shall be.")
}

/// A row of [`targets`]; without a target it is there to be seen.
fn row(comparison: &Comparison, target: Option<f64>) -> Vec<String> {
    let mut cells = comparison.cells();
    cells.push(comparison.target(target));
    cells
}
