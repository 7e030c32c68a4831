//! Where ours is worse than a rival, and which targets it misses, as tables see it.

use std::fmt::{self, Write};

use super::part::Part;
use super::table::{MISSED, Rival, Table, ratio_in};
use super::text::number;

/// Ours beside a rival's.
struct Row<'a> {
    ratio: f64,
    /// Within the noise: neither lost nor won.
    is_draw: bool,
    what: String,
    ours: &'a str,
    rival: &'a str,
    table: &'a str,
}

impl Row<'_> {
    fn is_lost(&self) -> bool {
        self.ratio > 1.0 && !self.is_draw
    }

    /// Of tokio as its users have it, or of tokio-util.
    fn is_of_tokio(&self) -> bool {
        self.rival.starts_with("tokio") && !self.rival.contains("alternative")
    }
}

/// What the tables say of losses.
pub(crate) struct Losses {
    /// Also shown by the page on benchmarks.
    pub(crate) lost: Part,
    pub(crate) missed: Part,
    /// All of it, for the report.
    pub(crate) section: String,
}

impl Losses {
    /// # Errors
    /// Never: a string takes all.
    pub(crate) fn of(tables: &[&Table]) -> Result<Self, fmt::Error> {
        let mut all: Vec<Row<'_>> = tables.iter().flat_map(|table| rows(table)).collect();
        all.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        let lost = Part::new("Where the wheel loses", lost(&all)?);
        let missed = Part::new("Missed targets", missed_targets(tables)?);

        let mut section = format!("## Where the wheel loses\n\n{lost}\n### Every loss\n\n");
        let header = ["times worse", "what", "ours", "than", "in the table"];
        let every = all.iter().filter(|row| row.is_lost()).fold(Table::new("", header), |table, row| {
            table.row([&*number(row.ratio), &row.what, row.ours, row.rival, row.table])
        });
        write!(section, "{}\n### Missed targets\n\n{missed}", every.untitled())?;
        Ok(Self { lost, missed, section })
    }
}

/// All losses beside tokio, and the worst of each other table. `all` begins with the worst.
fn lost(all: &[Row<'_>]) -> Result<String, fmt::Error> {
    let (lost, draws) = (all.iter().filter(|row| row.is_lost()), all.iter().filter(|row| row.is_draw));
    let [compared, losses, draws] = [all.len(), lost.clone().count(), draws.count()];
    let mut text = format!("Of {compared} comparisons the wheel loses {losses}, and {draws} are draws.\n");
    let (to_tokio, to_others): (Vec<_>, Vec<_>) = lost.partition(|row| row.is_of_tokio());

    writeln!(text, "\nBeside tokio and tokio-util, all {} losses:\n", to_tokio.len())?;
    let table = Table::new("", ["what", "ours", "times worse"]);
    let table =
        to_tokio.iter().fold(table, |table, row| table.row([&*row.what, row.ours, &number(row.ratio)]));
    write!(text, "{}", table.untitled())?;

    let mut seen = Vec::new();
    let worst = to_others.iter().filter(|row| {
        let is_first = !seen.contains(&row.table);
        seen.push(row.table);
        is_first
    });
    writeln!(text, "\nBeside other timers and structures, the worst loss in each table of the report:\n")?;
    let table = Table::new("", ["what", "ours", "times worse", "than"]);
    let table =
        worst.fold(table, |table, row| table.row([&*row.what, row.ours, &number(row.ratio), row.rival]));
    write!(text, "{}", table.untitled())?;
    Ok(text)
}

fn missed_targets(tables: &[&Table]) -> Result<String, fmt::Error> {
    let missed: Vec<[String; 3]> = tables.iter().flat_map(|table| missed(table)).collect();
    let targets: usize = tables.iter().map(|table| targets(table).count()).sum();
    let mut text = format!("Of {targets} targets {} are missed.\n\n", missed.len());
    let table = missed.into_iter().fold(Table::new("", ["what", "is", "target"]), Table::row);
    write!(text, "{}", table.untitled())?;
    Ok(text)
}

/// The name of a row, for readers who do not see its table.
fn what(table: &Table, row: &str) -> String {
    match &table.subject {
        Some(subject) => format!("{subject}: {row}"),
        None => row.to_owned(),
    }
}

/// All that the table compares with rivals.
fn rows(table: &Table) -> impl Iterator<Item = Row<'_>> {
    let of_ratios = table.ratios.iter().filter_map(|ratio| Some((ratio.column, ratio.sides?))).flat_map(
        move |(column, (ours, rival))| {
            table.rows.iter().filter_map(move |row| {
                let (ratio, is_draw) = ratio_in(&row[column])?;
                let (name, rival) = match rival {
                    Rival::NamedByHeader(place) => (&*row[0], &*table.header[place]),
                    Rival::NamedByRow(place) => (table.header[place].trim_start_matches("its "), &*row[0]),
                };
                Some(Row {
                    ratio,
                    is_draw,
                    what: what(table, name),
                    ours: &row[ours],
                    rival,
                    table: &table.title,
                })
            })
        },
    );
    let of_duels = table.duels.iter().filter_map(|duel| {
        // As it is shown, so that no loss is one of 1.
        let ratio = (duel.ratio? * 100.0).round() / 100.0;
        let (what, is_draw) = (what(table, &duel.what), duel.is_draw);
        Some(Row { ratio, is_draw, what, ours: &duel.ours, rival: &duel.rival, table: &table.title })
    });
    // Another of ours is no rival.
    of_ratios.chain(of_duels).filter(|row| !row.rival.starts_with("timingwheel"))
}

/// Rows that have a target, and what that is.
fn targets(table: &Table) -> impl Iterator<Item = (&[String], &str)> {
    let column = table.header.iter().position(|title| title == "target");
    let rows = table.rows.iter().filter_map(move |row| Some((&row[..], &*row[column?])));
    rows.filter(|(_, target)| target.starts_with(char::is_alphanumeric))
}

/// Of a row that misses its target: what, how it is, the target.
fn missed(table: &Table) -> impl Iterator<Item = [String; 3]> {
    targets(table).filter_map(|(row, target)| {
        let target = target.strip_suffix(MISSED)?.trim_end();
        // The first of the ratios, if the row has any.
        let ratio = table.ratios.first().and_then(|ratio| ratio_in(&row[ratio.column]));
        Some(match ratio {
            Some((ratio, _)) => [what(table, &row[0]), format!("{}×", number(ratio)), format!("{target}×")],
            None => [what(table, &row[0]), row[1].clone(), target.to_owned()],
        })
    })
}
