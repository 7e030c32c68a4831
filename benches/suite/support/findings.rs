//! What a case found: tables and charts.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
}

impl From<Table> for Findings {
    fn from(table: Table) -> Self {
        Self { tables: vec![table], charts: Vec::new() }
    }
}

/// Shown as Markdown. Tables of several cases with the same title and header are one table in a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(title: &str, header: impl IntoIterator<Item = T>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), header, rows: Vec::new(), notes: Vec::new() }
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

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Takes the rows and notes of the other, if it is a part of the same table.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        let is_part = self.is_part(other);
        if is_part {
            self.rows.extend_from_slice(&other.rows);
            let new = other.notes.iter().filter(|note| !self.notes.contains(note)).cloned();
            self.notes.extend(new.collect::<Vec<_>>());
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

/// As Markdown: the title, aligned columns, and the notes.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |row: &Vec<String>| row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>();
        let header = escaped(&self.header);
        let rows: Vec<Vec<String>> = self.rows.iter().map(escaped).collect();
        let columns: Vec<(usize, bool)> = (0..header.len())
            .map(|column| {
                let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
                // Three: what Markdown's rule takes at least.
                (cells.max().unwrap_or(0).max(3), self.is_of_numbers(column))
            })
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, row: &[String]| {
            for (cell, &(width, is_right)) in row.iter().zip(&columns) {
                if is_right { write!(f, "| {cell:>width$} ")? } else { write!(f, "| {cell:width$} ")? }
            }
            writeln!(f, "|")
        };
        writeln!(f, "### {}\n", self.title)?;
        line(f, &header)?;
        for &(width, is_right) in &columns {
            write!(f, "|-{}{}", "-".repeat(width), if is_right { ':' } else { '-' })?;
        }
        writeln!(f, "|")?;
        rows.iter().try_for_each(|row| line(f, row))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "\n{note}"))
    }
}

/// Points joined by lines, drawn to an SVG file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Chart {
    /// The file's name without its ending.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Chart {
    pub(crate) fn new(file: &str, title: &str, x: Axis, y: Axis) -> Self {
        Self { file: file.into(), title: title.into(), x, y, series: Vec::new() }
    }

    pub(crate) fn series(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.into(), points });
        self
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) label: String,
    pub(crate) log: bool,
}

impl Axis {
    pub(crate) fn linear(label: &str) -> Self {
        Self { label: label.into(), log: false }
    }

    /// Its values have to be above zero.
    pub(crate) fn log(label: &str) -> Self {
        Self { label: label.into(), log: true }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}
