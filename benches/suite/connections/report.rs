//! What the cases show of their rounds.

use super::reads::{BARE, TOKIO, WAYS};
use crate::support::{Comparison, Duel, Table, Unit, median, number};

/// A table of nanoseconds by round and in it by way of watching.
pub(super) fn table(title: &str, found: &[Vec<f64>]) -> Table {
    let header = [
        "reads are watched by",
        "a read",
        "more than nothing",
        "divided by tokio's",
        "more, divided by tokio's",
    ];
    let table = Table::new(title, header)
        .ratio_within("divided by tokio's", "a read divided by one that tokio's timeout watches")
        .ratio_within(
            "more, divided by tokio's",
            "what watching adds to a read divided by what tokio's timeout adds",
        );
    WAYS.iter().enumerate().fold(table, |table, (way, name)| {
        let of_rounds = |value: &dyn Fn(&[f64]) -> f64| median(found.iter().map(|round| value(round)));
        let is_watched = way != BARE;
        let ratio = of_rounds(&|round| round[way] / round[TOKIO]);
        let pairs: Vec<_> =
            found.iter().map(|round| (round[way] - round[BARE], round[TOKIO] - round[BARE])).collect();
        let of_more = Comparison::of("", Unit::Nanos, &pairs);
        let table = if [BARE, TOKIO].contains(&way) {
            table
        } else {
            let tokio = ("tokio's timeout", more(found, TOKIO));
            let duel = Duel::new(format!("watching a read, {name}"), Unit::Nanos, more(found, way), tokio);
            table.duel(duel.with_pairs(&of_more))
        };
        table.row([
            (*name).to_owned(),
            Unit::Nanos.show(of_rounds(&|round| round[way])),
            if is_watched { Unit::Nanos.show(more(found, way)) } else { String::new() },
            number(ratio),
            if is_watched { of_more.ratio_cell() } else { String::new() },
        ])
    })
}

/// What a way of watching adds to a read.
pub(super) fn more(found: &[Vec<f64>], way: usize) -> f64 {
    median(found.iter().map(|round| round[way] - round[BARE]))
}
