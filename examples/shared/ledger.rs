//! The closing table of an example, and the check that its counts add up.
//!
//! ```text
//! | requests       | 1,000 |       |
//! | - done         |   900 |       |   rows with a dash add up to the row above them
//! | - timed out    |   100 |       |
//! |   of these, early | 0  | 0     |   some of the row above
//! ```

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;

pub(crate) struct Ledger {
    table: Table,
    /// The row that parts have to add up to, and what is left of it.
    total: Option<(String, i128)>,
    has_parts: bool,
    problems: Vec<String>,
    /// The last row is not as expected.
    is_wrong: bool,
}

#[allow(dead_code, reason = "each example takes what it needs")]
impl Ledger {
    /// With a column of what was `seen`.
    pub(crate) fn new(seen: &str) -> Self {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN).set_header(["", seen, "expected"]);
        Self { table, total: None, has_parts: false, problems: Vec::new(), is_wrong: false }
    }

    /// A count of its own, which the parts after it add up to.
    pub(crate) fn total(&mut self, name: &str, count: u64) -> &mut Self {
        self.close();
        self.total = Some((name.to_owned(), count.into()));
        self.add(name.to_owned(), count, None)
    }

    /// A count of its own that has to be as expected.
    pub(crate) fn expect(&mut self, name: &str, count: u64, expected: u64) -> &mut Self {
        self.close();
        self.add(name.to_owned(), count, Some(expected))
    }

    /// A part of the total before it.
    pub(crate) fn part(&mut self, name: &str, count: u64) -> &mut Self {
        self.take(count);
        self.add(format!("- {name}"), count, None)
    }

    /// A part that has to be as expected.
    pub(crate) fn part_expected(&mut self, name: &str, count: u64, expected: u64) -> &mut Self {
        self.take(count);
        self.add(format!("- {name}"), count, Some(expected))
    }

    /// Some of the row before, which have to be as many as expected, if that is said.
    pub(crate) fn of_these(&mut self, name: &str, count: u64, expected: Option<u64>) -> &mut Self {
        self.add(format!("  of these, {name}"), count, expected)
    }

    /// The row before is as expected only where the machine did not hold up the program.
    pub(crate) fn unless_too_busy(&mut self) -> &mut Self {
        if std::mem::take(&mut self.is_wrong) {
            self.problems.pop().into_iter().for_each(crate::machine::unless_too_busy);
        }
        self
    }

    /// A figure that is no count.
    pub(crate) fn text(&mut self, name: &str, figure: &str) -> &mut Self {
        self.close();
        self.table.add_row([name, figure]);
        self
    }

    /// How late something was, by the shares of it that stayed within.
    pub(crate) fn lateness(&mut self, what: &str, quantile: impl Fn(f64) -> Duration) -> &mut Self {
        self.close();
        for (share, quantile_of) in [("half", 0.5), ("99 %", 0.99), ("all", 1.0)] {
            let late = format!("{:.3} ms", quantile(quantile_of).as_secs_f64() * 1e3);
            self.table.add_row([format!("{what}: {share} within"), late]);
        }
        self
    }

    /// Prints the table and, if all adds up, what it `means`. Returns what does not add up.
    pub(crate) fn print(mut self, means: &str) -> Vec<String> {
        self.close();
        self.table
            .column_iter_mut()
            .skip(1)
            .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let text = self.table.to_string();
        println!("{text}\n\nRows with a dash add up to the row above them.");
        if self.problems.is_empty() {
            println!("{means}");
        }
        self.problems
    }

    fn add(&mut self, name: String, count: u64, expected: Option<u64>) -> &mut Self {
        let text = |count| HumanCount(count).to_string();
        let expected_instead = expected.filter(|&expected| expected != count);
        self.is_wrong = expected_instead.is_some();
        if let Some(expected) = expected_instead {
            let name = name.trim_start_matches(['-', ' ']);
            self.problems.push(format!("{name}: {}, and not {}", text(count), text(expected)));
        }
        self.table.add_row([name, text(count), expected.map(text).unwrap_or_default()]);
        self
    }

    fn take(&mut self, count: u64) {
        self.has_parts = true;
        if let Some((_, left)) = &mut self.total {
            *left -= i128::from(count);
        }
    }

    fn close(&mut self) {
        if let Some((name, left @ (..=-1 | 1..))) = self.total.take()
            && self.has_parts
        {
            let what = if left < 0 { "more" } else { "less" };
            self.problems.push(format!("{name}: the parts add up to {what}, by {}", left.abs()));
        }
        self.has_parts = false;
    }
}
