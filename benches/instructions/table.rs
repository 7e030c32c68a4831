//! Counts as tables in Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets::ASCII_MARKDOWN};

use crate::counts::Counts;
use crate::operation::Operation;
use crate::operations;

pub(crate) fn new<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

pub(crate) fn row(name: &str, numbers: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let numbers = numbers.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    std::iter::once(Cell::new(name)).chain(numbers).collect()
}

/// Ours, and tokio's where it has the same.
pub(crate) fn beside_tokio(counts: &[(&'static Operation, Counts)]) -> Table {
    let of = |operation: &Operation| {
        let mut all = counts.iter();
        all.find(|(counted, _)| std::ptr::eq(*counted, operation)).map(|(_, counts)| *counts)
    };
    let mut table = new([
        "operation",
        "instructions",
        "tokio's",
        "target",
        "reads",
        "tokio's",
        "writes",
        "tokio's",
        "misses",
        "tokio's",
    ]);
    for ours in operations::ours() {
        let counts = of(ours);
        let target = ours.target.zip(counts).map(|(target, counts)| {
            let missed = if counts.instructions > target { " missed" } else { "" };
            format!("{target}{missed}")
        });
        let [instructions, reads, writes, misses] = counts.map(columns).unwrap_or_default();
        let [of_tokio, reads_of_tokio, writes_of_tokio, misses_of_tokio] =
            operations::rival(ours).and_then(of).map(columns).unwrap_or_default();
        let target = target.unwrap_or_default();
        let cells = [
            instructions,
            of_tokio,
            target,
            reads,
            reads_of_tokio,
            writes,
            writes_of_tokio,
            misses,
            misses_of_tokio,
        ];
        table.add_row(row(ours.name, cells));
    }
    table
}

fn columns(counts: Counts) -> [String; 4] {
    [counts.instructions, counts.reads, counts.writes, counts.misses].map(|count| format!("{count:.1}"))
}
