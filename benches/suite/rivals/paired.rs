//! Pairs of which each side has two values: the time of the calls, and CPU time.

use super::host::Spent;
use crate::support::{Comparison, Scale, Table, Unit, rounds};

const HEADER: [&str; 7] =
    ["timer", "its time", "ours beside it", "ours / its", "its CPU", "our CPU beside it", "ours / its, CPU"];

pub(super) type Row = [String; HEADER.len()];

pub(super) fn table(title: &str, rows: Vec<Row>) -> Table {
    let table = Table::new(title, HEADER)
        .ratio_to_each("ours / its", "ours beside it", "its time")
        .ratio_to_each("ours / its, CPU", "our CPU beside it", "its CPU");
    rows.into_iter().fold(table, Table::row)
}

/// Runs both sides in turn, and returns the cells of a row. The first pair, in which caches get warm, does
/// not count.
pub(super) fn row(
    scale: Scale,
    name: &str,
    operations: usize,
    mut ours: impl FnMut() -> Spent,
    mut rival: impl FnMut() -> Spent,
) -> Row {
    ours();
    rival();
    let rounds = rounds(scale.rounds(), &mut [&mut ours, &mut rival]);
    let cells = |nanos: fn(&Spent) -> f64| {
        let each = |nanos: f64| Unit::Nanos.show(nanos / operations as f64);
        let pairs: Vec<_> = rounds.iter().map(|sides| (nanos(&sides[0]), nanos(&sides[1]))).collect();
        let found = Comparison::of("", Unit::Nanos, &pairs);
        [each(found.rival), each(found.ours), found.ratio_cell()]
    };
    let [its, ours, ratio] = cells(|spent| spent.wall.as_nanos() as f64);
    let [its_cpu, our_cpu, ratio_cpu] = cells(|spent| spent.cpu.as_nanos() as f64);
    [name.to_owned(), its, ours, ratio, its_cpu, our_cpu, ratio_cpu]
}
