//! What timers cost on a wheel, divided by what they cost on `tokio::time`.
//!
//! Each case proves, by the wheel's own counts, that its timers reached the wheel; that they reached tokio's is seen by
//! their first poll being pending.

mod firing;
mod operations;
mod threads;

use crate::support::{Case, Comparison, Table};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("tokio_arming", "What does it cost to make and to drop a timer?", operations::arming),
        Case::new("tokio_moving", "What does it cost to move a deadline?", operations::moving),
        Case::new("tokio_polling", "What do the polls between cost?", operations::polling),
        Case::new(
            "tokio_workers",
            "How many timeouts do tasks make in a second, on more and more workers?",
            threads::workers,
        ),
        Case::new(
            "tokio_crowds",
            "What do timers cost where there are many more threads than cores?",
            threads::crowds,
        ),
        Case::new("tokio_memory", "How much memory does a pending timer take?", operations::memory),
        Case::new("tokio_firing", "How much CPU time does a timer take that fires?", firing::cpu),
        Case::new(
            "tokio_pauses",
            "How long is whoever arms a timer held up, at worst, while a million fire?",
            firing::pauses,
        ),
        Case::new("tokio_lateness", "How late do timers fire?", firing::lateness),
        Case::new("tokio_idle", "How often does one far timer wake the process?", firing::idle),
    ]
}

/// The sides of a round, and of a pair.
const SIDES: (usize, usize) = (0, 1);

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

/// A row of [`targets`] without a ratio.
fn row_of_values(what: &str, [ours, tokio]: [String; 2], target: String) -> [String; 5] {
    [what.to_owned(), ours, tokio, String::new(), target]
}
