//! The closing table.

use std::time::Duration;

use indicatif::HumanFloatCount;

use crate::books::Books;
use crate::checks::{Checks, Memory};
use crate::ledger::Ledger;
use crate::settings::Settings;

/// Bytes, for people.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Prints the closing table, and returns what does not hold.
pub(crate) fn print(settings: &Settings, books: &Books, checks: Checks) -> Vec<String> {
    let stats = &checks.last;
    let Memory { warm, most, now } = checks.memory;
    let lateness = books.lateness();
    let in_a_second = stats.armed as f64 / settings.length().as_secs_f64();
    let mut ledger = Ledger::new("count");
    for (what, number) in books.counts() {
        ledger.total(what, number);
    }
    ledger
        .total("timers armed by all these", stats.armed)
        .part("fired", stats.fired)
        .part("cancelled", stats.cancelled)
        .part_expected("pending at the end", stats.pending as u64, 0)
        .text("timers armed in a second", &HumanFloatCount(in_a_second.round()).to_string())
        .expect("timers that were early", books.early.get(), 0)
        .total("most timers pending at a check", checks.most_pending as u64)
        .total("moves of a timer to a finer level", stats.cascaded)
        .total("turns of the wheel", stats.turns)
        .total("checks", checks.number)
        .lateness("timers late", |share| Duration::from_nanos(lateness.value_at_quantile(share)));
    for (what, bytes) in
        [("most memory until warm", warm), ("most memory after that", most), ("memory at the end", now)]
    {
        ledger.text(what, &bytes.map_or_else(|| "-".to_owned(), mib));
    }
    let mut problems = ledger.print(
        "What it means: at full speed no timer was early, and each one fired or was\n\
         cancelled.",
    );
    problems.extend(checks.problems);
    problems
}
