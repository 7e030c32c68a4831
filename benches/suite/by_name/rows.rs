//! Rows of tables from what rounds found.

use super::build;
use super::sides::Round;
use crate::against_tokio::targets;
use crate::support::{Comparison, Duel, Findings, Table, Unit, number, quartiles};

/// One thing measured.
pub(super) struct Measured<'a> {
    pub(super) what: &'a str,
    pub(super) unit: Unit,
    pub(super) rounds: &'a [Round],
    /// Its place in what the load returns.
    pub(super) place: usize,
    /// What the ratio by name shall be at most. If it is given, that row stands in the report's first table.
    pub(super) limit: Option<f64>,
}

/// All that was measured on one runtime.
pub(super) struct Rows {
    runtime: &'static str,
    targets: Table,
    table: Table,
}

impl Rows {
    /// `build` says whether tokio has `test-util`.
    pub(super) fn new(what: &str, runtime: &'static str, build: &str) -> Self {
        let title = format!("{what} by name and by handle, {runtime}, {build}");
        let header = ["what", "ours", "tokio", "ratio", "quartiles"];
        let table = Table::new(&title, header).ratio_within("ratio", "`ours` divided by `tokio`");
        Self {
            runtime,
            targets: targets().note(
                "By name: `timingwheel::time` in place of `tokio::time`, in CPU time. Workers are those of a multi-thread \
                 runtime; 1 thread is a current-thread one. tokio has its `test-util` only where the clock is paused.",
            ),
            table: if build == build::WITH { table.about("with `test-util`") } else { table },
        }
    }

    /// Says what was measured. Once for all tables of a case: in the last.
    pub(super) fn explain(self, what: &str) -> Self {
        let table = self.table.note(what).note("Quartiles: between them lies half of the ratios.");
        Self { table, ..self }
    }

    pub(super) fn add(mut self, measured: &Measured<'_>) -> Self {
        let Measured { what, unit, rounds, place, limit } = *measured;
        // Only what a changed `use` does has a target.
        for (how, limit) in [("by name", limit), ("by handle", None)] {
            let ours =
                |round: &Round| if how == "by name" { round.by_name[place] } else { round.by_handle[place] };
            let pairs: Vec<_> = rounds.iter().map(|round| (ours(round), round.tokio[place])).collect();
            let found = Comparison::of("", unit, &pairs);
            let [lower, _, upper] = quartiles(pairs.iter().map(|(ours, tokio)| ours / tokio));
            let mut cells = found.cells();
            cells[0] = format!("{what}, {how}");
            cells.push(format!("{} to {}", number(lower), number(upper)));
            self.table = self.table.row(cells);
            if limit.is_some() {
                let mut cells = found.cells();
                cells[0] = format!("{how}, {}: {what}", self.runtime);
                cells.push(found.target(limit));
                self.targets = self.targets.row(cells);
            } else {
                // The losses are counted once: those in the first table there.
                let what = format!("{what}, {how}, {}", self.runtime);
                let duel = Duel::new(what, unit, found.ours, ("tokio", found.rival));
                self.table = self.table.duel(duel.with_pairs(&found));
            }
        }
        self
    }
}

/// The first table once, then that of each runtime.
impl FromIterator<Rows> for Findings {
    fn from_iter<I: IntoIterator<Item = Rows>>(all: I) -> Self {
        let (mut first, mut tables) = (targets(), Vec::new());
        for Rows { targets, table, .. } in all {
            first.absorb(&targets);
            tables.push(table);
        }
        tables.insert(0, first);
        Self { tables, charts: Vec::new() }
    }
}
