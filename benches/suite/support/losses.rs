//! Where ours is worse than a rival, and which targets it misses, as tables see it.

use std::fmt::Write;

use super::table::{MISSED, Rival, Table};
use super::text::number;

/// Ours beside a rival's.
struct Row<'a> {
    ratio: f64,
    what: &'a str,
    ours: &'a str,
    rival: String,
    table: &'a str,
}

/// A section of a page about all these tables.
///
/// # Errors
/// Never: a string takes all.
pub(crate) fn section(tables: &[&Table]) -> Result<String, std::fmt::Error> {
    let mut page = String::from("## Where the wheel loses\n\n");
    let all: Vec<Row<'_>> = tables.iter().flat_map(|table| rows(table)).collect();
    let compared = all.len();
    let mut lost: Vec<Row<'_>> = all.into_iter().filter(|row| row.ratio > 1.0).collect();
    lost.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    writeln!(
        page,
        "This page compares ours with a rival's {} times. Ours is the worse one in {}, the worst first. How many times \
         as much it takes is the ratio in the table named, or else the one value divided by the other.\n",
        number(compared as f64),
        number(lost.len() as f64)
    )?;
    let header = ["times", "what", "ours", "rival's", "in the table"];
    let table = lost.iter().fold(Table::new("Losses", header), |table, row| {
        table.row([&*number(row.ratio), row.what, row.ours, &row.rival, row.table])
    });
    writeln!(page, "{}", table.untitled())?;

    let missed: Vec<[&str; 4]> = tables.iter().flat_map(|table| missed(table)).collect();
    let targets: usize = tables.iter().map(|table| targets(table).count()).sum();
    writeln!(page, "Of {targets} targets {} are missed. What is without a unit is a ratio.\n", missed.len())?;
    let table =
        missed.into_iter().fold(Table::new("Missed", ["what", "is", "target", "in the table"]), Table::row);
    write!(page, "{}", table.untitled())?;
    Ok(page)
}

/// All that the table compares with rivals.
fn rows(table: &Table) -> impl Iterator<Item = Row<'_>> {
    let of_ratios = table.ratios.iter().filter_map(|ratio| Some((ratio.column, ratio.sides?))).flat_map(
        move |(column, (ours, rival))| {
            table.rows.iter().filter_map(move |row| {
                let ratio = row[column].parse().ok()?;
                let (what, rival) = match rival {
                    Rival::NamedByHeader(place) => {
                        (&*row[0], format!("{} ({})", row[place], table.header[place]))
                    }
                    Rival::NamedByRow(place) => (
                        table.header[place].trim_start_matches("its "),
                        format!("{} ({})", row[place], row[0]),
                    ),
                };
                Some(Row { ratio, what, ours: &row[ours], rival, table: &table.title })
            })
        },
    );
    let of_duels = table.duels.iter().filter_map(|duel| {
        // As it is shown, so that no loss is one of 1.
        let ratio = (duel.ratio? * 100.0).round() / 100.0;
        let (what, rival) = (&*duel.what, duel.rival.clone());
        Some(Row { ratio, what, ours: &duel.ours, rival, table: &table.title })
    });
    of_ratios.chain(of_duels)
}

/// Rows that have a target, and what that is.
fn targets(table: &Table) -> impl Iterator<Item = (&[String], &str)> {
    let column = table.header.iter().position(|title| title == "target");
    let rows = table.rows.iter().filter_map(move |row| Some((&row[..], &*row[column?])));
    rows.filter(|(_, target)| target.starts_with(char::is_alphanumeric))
}

/// Of a row that misses its target: what, how it is, the target, the table.
fn missed(table: &Table) -> impl Iterator<Item = [&str; 4]> {
    targets(table).filter_map(|(row, target)| {
        let target = target.strip_suffix(MISSED)?;
        // The first of the ratios, if the row has any.
        let ratio = table.ratios.first().map(|ratio| &*row[ratio.column]).filter(|cell| !cell.is_empty());
        Some([&*row[0], ratio.unwrap_or(&row[1]), target.trim_end(), &table.title])
    })
}
