//! How much work a case does, and what it finds: rounds of both sides with their medians, tables, and numbers as text.

use std::fmt;
use std::time::{Duration, Instant};

use indicatif::HumanCount;
use serde::{Deserialize, Serialize};

// A table, and what in it is ours beside a rival's.

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

// How much work a run does.

/// All of it under `cargo bench`, or next to nothing, only to see that every case works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    is_test: bool,
}

/// Enough for a median that one disturbance does not move.
const ROUNDS: usize = 15;
/// Of rounds that wait for their timers, which takes seconds.
const FEW_ROUNDS: usize = 3;
/// Each number of operations or timers is divided by this in a test.
const TEST_DIVISOR: u32 = 1000;

impl Scale {
    pub(crate) const fn full() -> Self {
        Self { is_test: false }
    }

    pub(crate) const fn test() -> Self {
        Self { is_test: true }
    }

    pub(crate) const fn is_test(self) -> bool {
        self.is_test
    }

    /// This many, or a small share of them in a test; at least one.
    pub(crate) fn of(self, full: usize) -> usize {
        if self.is_test { (full / TEST_DIVISOR as usize).max(1) } else { full }
    }

    /// This length, or a small share of it in a test.
    pub(crate) fn length(self, full: Duration) -> Duration {
        if self.is_test { full / TEST_DIVISOR } else { full }
    }

    /// How many pairs are measured.
    pub(crate) const fn rounds(self) -> usize {
        if self.is_test { 1 } else { ROUNDS }
    }

    /// How many pairs are measured where each takes seconds.
    pub(crate) const fn few_rounds(self) -> usize {
        if self.is_test { 1 } else { FEW_ROUNDS }
    }
}

// Rounds: ours and the rival's in turn, so that a noisy machine disturbs both alike, and medians.

/// What both sides took, and how they compare.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// The median of our rounds.
    pub(crate) ours: f64,
    /// The median of the rival's rounds.
    pub(crate) rival: f64,
    /// The median of the ratios of the pairs, ours divided by the rival's. Not the ratio of the medians: the two sides
    /// of a pair ran at nearly the same time.
    pub(crate) ratio: f64,
    /// Whether the difference is within the noise: in the middle half of the pairs each side won some, or the medians
    /// say the opposite of the ratio.
    pub(crate) is_draw: bool,
}

impl Comparison {
    /// Of pairs of ours and the rival's.
    pub(crate) fn of(name: &'static str, unit: Unit, pairs: &[(f64, f64)]) -> Self {
        let median_of = |value: fn(&(f64, f64)) -> f64| median(pairs.iter().map(value));
        let (ours, rival) = (median_of(|pair| pair.0), median_of(|pair| pair.1));
        let [lower, ratio, upper] = quartiles(pairs.iter().map(|pair| pair.0 / pair.1));
        let is_opposite = (ours - rival) * (ratio - 1.0) <= 0.0;
        Self { name, unit, ours, rival, ratio, is_draw: (lower <= 1.0 && upper >= 1.0) || is_opposite }
    }

    /// Of what sides found in [`rounds`]: ours at `ours`, the rival's at `rival`.
    pub(crate) fn of_rounds<T>(
        name: &'static str,
        unit: Unit,
        found: &[Vec<T>],
        (ours, rival): (usize, usize),
        value: impl Fn(&T) -> f64,
    ) -> Self {
        let pairs: Vec<_> = found.iter().map(|sides| (value(&sides[ours]), value(&sides[rival]))).collect();
        Self::of(name, unit, &pairs)
    }

    /// As cells: what, ours, the rival's, the ratio.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![self.name.into(), self.unit.show(self.ours), self.unit.show(self.rival), self.ratio_cell()]
    }

    /// The ratio, marked if it is a draw.
    pub(crate) fn ratio_cell(&self) -> String {
        let ratio = number(self.ratio);
        if self.is_draw { format!("{ratio} {DRAW}") } else { ratio }
    }

    /// What the ratio shall be at most, and whether it is, as a cell. Without a limit it is there to be seen.
    pub(crate) fn target(&self, limit: Option<f64>) -> String {
        // As they are shown, so that a reader comes to the same verdict.
        let shown = |value: f64| (value * 100.0).round();
        limit.map(|limit| target(limit, shown(self.ratio) <= shown(limit))).unwrap_or_default()
    }
}

/// Runs both sides in turn. Each returns the time that it took for `operations` operations.
pub(crate) fn compare(
    scale: Scale,
    name: &'static str,
    operations: usize,
    mut ours: impl FnMut() -> Duration,
    mut rival: impl FnMut() -> Duration,
) -> Comparison {
    // The suite shows it beside the name of the case.
    eprintln!("{name}");
    let rounds = warm_rounds(scale.rounds(), &mut [&mut ours, &mut rival]);
    Comparison::of_rounds(name, Unit::Nanos, &rounds, (0, 1), |time| {
        time.as_nanos() as f64 / operations as f64
    })
}

/// Runs all sides in each round. The order alternates, because each finds the caches as the one before left them.
/// Returns what they found, by round and in it by side.
pub(crate) fn rounds<T>(count: usize, sides: &mut [&mut dyn FnMut() -> T]) -> Vec<Vec<T>> {
    (0..count)
        .map(|round| {
            if round % 2 == 0 {
                sides.iter_mut().map(|side| side()).collect()
            } else {
                let mut found: Vec<T> = sides.iter_mut().rev().map(|side| side()).collect();
                found.reverse();
                found
            }
        })
        .collect()
}

/// [`rounds`] after one that does not count: in it caches and pools get warm, and memory grows that is kept later.
pub(crate) fn warm_rounds<T>(count: usize, sides: &mut [&mut dyn FnMut() -> T]) -> Vec<Vec<T>> {
    rounds(count + 1, sides).split_off(1)
}

/// The middle one; the upper of two.
///
/// # Panics
/// Without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quartiles(values)[1]
}

/// The lower quartile, the median and the upper quartile.
///
/// # Panics
/// Without values.
pub(crate) fn quartiles(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarters| values[values.len() * quarters / 4])
}

/// The time that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

// What a case found.

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) tables: Vec<Table>,
}

impl From<Table> for Findings {
    fn from(table: Table) -> Self {
        Self { tables: vec![table] }
    }
}

// Numbers as text.

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Shown in ns, µs, ms or s.
    Nanos,
    Bytes,
    /// Operations in a second, shown in millions.
    PerSecond,
    Count,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        const STEPS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
        match self {
            Self::Nanos => {
                let step = STEPS.into_iter().find(|(step, _)| value.abs() >= *step);
                let (step, name) = step.unwrap_or((1.0, "ns"));
                format!("{} {name}", number(value / step))
            }
            Self::Bytes => format!("{} B", number(value)),
            Self::PerSecond => format!("{} M/s", number(value / 1e6)),
            Self::Count => number(value),
        }
    }
}

/// At least three significant digits, a whole number as such, and groups of three digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (&*text, String::new()),
    };
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let grouped = digits.parse().map_or_else(|_| digits.to_owned(), |whole| HumanCount(whole).to_string());
    format!("{sign}{grouped}{fraction}")
}
