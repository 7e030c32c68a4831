//! A table, and what in it is ours beside a rival's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::compare::Comparison;
use super::text::Unit;

/// What stands behind a target that is missed.
pub(crate) const MISSED: &str = "**missed**";

/// What stands behind a ratio that is within the noise.
pub(crate) const DRAW: &str = "draw";

/// Two single values that differ by no more than this share are a draw: there are no pairs to tell the noise from.
const NOISE: f64 = 0.05;

/// A target as a cell.
pub(crate) fn target(target: impl fmt::Display, is_met: bool) -> String {
    if is_met { target.to_string() } else { format!("{target} {MISSED}") }
}

/// The ratio in a cell, and whether it is a draw.
pub(crate) fn ratio_in(cell: &str) -> Option<(f64, bool)> {
    let (number, is_draw) = match cell.strip_suffix(DRAW) {
        Some(number) => (number.trim_end(), true),
        None => (cell, false),
    };
    Some((number.replace(',', "").parse().ok()?, is_draw))
}

impl Duel {
    /// Of two values of which the lower is the better one; the rival's with its name.
    pub(crate) fn new(what: impl Into<String>, unit: Unit, ours: f64, (name, rival): (&str, f64)) -> Self {
        let ratio = ours / rival;
        Self { what: what.into(), ours: unit.show(ours), rival: name.into(), ratio: None, is_draw: false }
            .with_ratio(ratio, (ratio - 1.0).abs() <= NOISE)
    }

    /// Of two values of which the higher is the better one.
    pub(crate) fn of_rates(what: impl Into<String>, unit: Unit, ours: f64, rival: (&str, f64)) -> Self {
        let ratio = rival.1 / ours;
        Self::new(what, unit, ours, rival).with_ratio(ratio, (ratio - 1.0).abs() <= NOISE)
    }

    /// With the median of the ratios of pairs instead of the one value divided by the other.
    pub(crate) fn with_ratio(self, ratio: f64, is_draw: bool) -> Self {
        Self { ratio: Some(ratio).filter(|ratio| ratio.is_finite()), is_draw, ..self }
    }

    /// As [`with_ratio`](Self::with_ratio), of pairs that were compared.
    pub(crate) fn with_pairs(self, found: &Comparison) -> Self {
        self.with_ratio(found.ratio, found.is_draw)
    }
}

/// Shown as Markdown. Tables of several cases with the same title and header are one table in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Stands before the name of a row where rows of several tables stand together.
    pub(crate) subject: Option<String>,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    notes: Vec<String>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) duels: Vec<Duel>,
}

/// A column of ratios.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) column: usize,
    /// What is divided by what.
    of: String,
    /// The columns of ours and the rival's, if it is a rival with which ours is compared.
    pub(crate) sides: Option<(usize, Rival)>,
}

/// In which column a rival's values stand, and where its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Rival {
    NamedByHeader(usize),
    NamedByRow(usize),
}

/// Ours beside a rival's, where no column of ratios shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Duel {
    pub(crate) what: String,
    pub(crate) ours: String,
    /// The rival's name.
    pub(crate) rival: String,
    /// Above 1 ours is the worse one. Nothing where no number says it, as beside a rival that takes nothing.
    pub(crate) ratio: Option<f64>,
    pub(crate) is_draw: bool,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(title: &str, header: impl IntoIterator<Item = T>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self {
            title: title.into(),
            subject: None,
            header,
            rows: Vec::new(),
            notes: Vec::new(),
            ratios: Vec::new(),
            duels: Vec::new(),
        }
    }

    /// # Panics
    /// If it has not as many cells as the header.
    #[track_caller]
    pub(crate) fn row<T: Into<String>>(mut self, cells: impl IntoIterator<Item = T>) -> Self {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.header.len(), "a row of «{}» has a cell for each column", self.title);
        self.rows.push(cells);
        self
    }

    /// Names what all its rows are about, for readers who see a row without the title.
    pub(crate) fn about(self, subject: &str) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Declares the column `name` as one of ratios of `ours` to `rival`, both columns too: medians of pairs.
    ///
    /// # Panics
    /// If there is no such column.
    #[track_caller]
    pub(crate) fn ratio(self, name: &str, ours: &str, rival: &str) -> Self {
        let rival = Rival::NamedByHeader(self.column(rival));
        self.ratio_of(name, ours, rival)
    }

    /// As [`ratio`](Self::ratio), where each row is of another rival, which its first cell names.
    #[track_caller]
    pub(crate) fn ratio_to_each(self, name: &str, ours: &str, rivals: &str) -> Self {
        let rival = Rival::NamedByRow(self.column(rivals));
        self.ratio_of(name, ours, rival)
    }

    #[track_caller]
    fn ratio_of(mut self, name: &str, ours: &str, rival: Rival) -> Self {
        let (Rival::NamedByHeader(rivals) | Rival::NamedByRow(rivals)) = rival;
        let of = format!("`{ours}` divided by `{}`", self.header[rivals]);
        self.ratios.push(Ratio { column: self.column(name), of, sides: Some((self.column(ours), rival)) });
        self
    }

    /// Declares the column `name` as one of ratios, medians of pairs, of what `of` says. Losses are none of its rows; those
    /// are said by [`duel`](Self::duel).
    #[track_caller]
    pub(crate) fn ratio_within(mut self, name: &str, of: &str) -> Self {
        self.ratios.push(Ratio { column: self.column(name), of: of.into(), sides: None });
        self
    }

    /// Compares two values of this table.
    pub(crate) fn duel(mut self, duel: Duel) -> Self {
        self.duels.push(duel);
        self
    }

    pub(crate) fn untitled(&self) -> Untitled<'_> {
        Untitled(self)
    }

    #[track_caller]
    fn column(&self, name: &str) -> usize {
        let place = self.header.iter().position(|title| title == name);
        place.unwrap_or_else(|| panic!("«{}» has no column `{name}`", self.title))
    }

    /// Takes the rows and notes of the other, if it is a part of the same table.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let is_part = self.is_part(other);
        if is_part {
            self.rows.extend_from_slice(&other.rows);
            let new = other.notes.iter().filter(|note| !self.notes.contains(note)).cloned();
            self.notes.extend(new.collect::<Vec<_>>());
            self.duels.extend_from_slice(&other.duels);
        }
        is_part
    }

    /// Whether the other is a part of the same table.
    pub(crate) fn is_part(&self, other: &Self) -> bool {
        self.title == other.title && self.header == other.header
    }

    /// Whether a column's cells begin with digits, or are empty or a dash.
    fn is_of_numbers(&self, column: usize) -> bool {
        let cells = self.rows.iter().map(|row| &*row[column]);
        let mut cells = cells.filter(|cell| !["", "-"].contains(cell)).peekable();
        cells.peek().is_some()
            && cells.all(|cell| {
                cell.trim_start_matches(['-', '<', '+']).starts_with(|c: char| c.is_ascii_digit())
            })
    }
}

/// As Markdown: the title, aligned columns, how ratios are made, and the notes.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "### {}\n\n{}", self.title, self.untitled())
    }
}

/// A table without its title.
pub(crate) struct Untitled<'a>(&'a Table);

impl fmt::Display for Untitled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(table) = self;
        let escaped = |row: &Vec<String>| row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>();
        let header = escaped(&table.header);
        let rows: Vec<Vec<String>> = table.rows.iter().map(escaped).collect();
        let columns: Vec<(usize, bool)> = (0..header.len())
            .map(|column| {
                let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
                // Three: what Markdown's rule takes at least.
                (cells.max().unwrap_or(0).max(3), table.is_of_numbers(column))
            })
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, row: &[String]| {
            for (cell, &(width, is_right)) in row.iter().zip(&columns) {
                if is_right { write!(f, "| {cell:>width$} ")? } else { write!(f, "| {cell:width$} ")? }
            }
            writeln!(f, "|")
        };
        line(f, &header)?;
        for &(width, is_right) in &columns {
            write!(f, "|-{}{}", "-".repeat(width), if is_right { ':' } else { '-' })?;
        }
        writeln!(f, "|")?;
        rows.iter().try_for_each(|row| line(f, row))?;
        if !table.ratios.is_empty() {
            let of = |ratio: &Ratio| format!("`{}` is {}", table.header[ratio.column], ratio.of);
            let all: Vec<String> = table.ratios.iter().map(of).collect();
            write!(f, "\n{}: the median over the pairs of runs, ", all.join("; "))?;
            write!(f, "so not quite the one column divided by the other. Less is better. ")?;
            writeln!(f, "`{DRAW}`: the runs differ by more than the two sides do.")?;
        }
        table.notes.iter().try_for_each(|note| writeln!(f, "\n{note}"))
    }
}
