//! The closing table.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;

use crate::books::Books;
use crate::checks::{Checks, Memory};
use crate::settings::Settings;

/// Bytes, for people.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn millis(nanos: u64) -> String {
    format!("{:.3} ms", Duration::from_nanos(nanos).as_secs_f64() * 1e3)
}

pub(crate) fn print(settings: &Settings, books: &Books, checks: &Checks) {
    let count = |count: u64| HumanCount(count).to_string();
    let stats = &checks.last;
    let mut rows: Vec<(String, String)> =
        books.counts().into_iter().map(|(what, number)| (what.into(), count(number))).collect();
    let Memory { warm, most, now } = checks.memory;
    let lateness = books.lateness();
    let per_second = stats.armed as f64 / settings.length().as_secs_f64();
    rows.extend(
        [
            ("timers armed", count(stats.armed)),
            ("- in a second", format!("{per_second:.0}")),
            ("- fired", count(stats.fired)),
            ("- cancelled", count(stats.cancelled)),
            ("- moved down", count(stats.cascaded)),
            ("- most pending at a check", count(checks.most_pending as u64)),
            ("- early", count(books.early.get())),
            ("turns", count(stats.turns)),
            ("late, half within", millis(lateness.value_at_quantile(0.5))),
            ("late, 99 % within", millis(lateness.value_at_quantile(0.99))),
            ("late, 99.9 % within", millis(lateness.value_at_quantile(0.999))),
            ("late, most", millis(lateness.max())),
            ("checks", count(checks.number)),
        ]
        .map(|(what, figure)| (what.into(), figure)),
    );
    for (what, bytes) in
        [("memory, most until warm", warm), ("memory, most after that", most), ("memory at the end", now)]
    {
        rows.push((what.into(), bytes.map_or("-".into(), mib)));
    }

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "timing wheel"]);
    rows.into_iter().for_each(|(what, figure)| {
        table.add_row([what, figure]);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}\n");
    if checks.problems.is_empty() {
        println!(
            "It adds up: every timer fired or was cancelled, none was early, none is left, timers went on firing."
        );
    }
}
