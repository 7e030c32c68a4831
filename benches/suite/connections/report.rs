//! What the cases show of their rounds.

use super::reads::{BARE, TOKIO, WAYS};
use crate::support::{Table, Unit, median, number};

/// A table of nanoseconds by round and in it by way of watching.
pub(super) fn table(title: &str, found: &[Vec<f64>]) -> Table {
    let header = [
        "reads are watched by",
        "a read",
        "more than nothing",
        "divided by tokio's",
        "more, divided by tokio's",
    ];
    WAYS.iter().enumerate().fold(Table::new(title, header), |table, (way, name)| {
        let of_rounds = |value: &dyn Fn(&[f64]) -> f64| median(found.iter().map(|round| value(round)));
        let is_watched = way != BARE;
        let ratio = of_rounds(&|round| round[way] / round[TOKIO]);
        let ratio_of_more = of_rounds(&|round| (round[way] - round[BARE]) / (round[TOKIO] - round[BARE]));
        table.row([
            (*name).to_owned(),
            Unit::Nanos.show(of_rounds(&|round| round[way])),
            if is_watched { Unit::Nanos.show(more(found, way)) } else { String::new() },
            number(ratio),
            if is_watched { number(ratio_of_more) } else { String::new() },
        ])
    })
}

/// What a way of watching adds to a read.
pub(super) fn more(found: &[Vec<f64>], way: usize) -> f64 {
    median(found.iter().map(|round| round[way] - round[BARE]))
}
