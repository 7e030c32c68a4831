//! Where ours is worse than a rival, and which targets it misses, as tables see it.

use std::fmt::{self, Write};

use super::part::Part;
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

/// How often ours loses in each table, and where most: what a README shows too.
fn summary(all: &[Row<'_>]) -> Part {
    let header = ["table", "rows", "rows lost", "worst row", "factor"];
    let mut tables: Vec<&str> = all.iter().map(|row| row.table).collect();
    tables.sort_unstable();
    tables.dedup();
    let mut rows: Vec<(f64, [String; 5])> = Vec::new();
    for name in tables {
        let of_table = || all.iter().filter(|row| row.table == name);
        let lost = of_table().filter(|row| row.ratio > 1.0);
        if let Some(most) = lost.clone().max_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
            let most_is = format!("{}: {}, not {}", most.what, most.ours, most.rival);
            let [all, lost] = [of_table().count(), lost.count()].map(|count| number(count as f64));
            rows.push((most.ratio, [name.to_owned(), all, lost, most_is, number(most.ratio)]));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    Part::new("Where the wheel loses", Table::new("Summary", header), rows.into_iter().map(|(_, row)| row))
}

/// The summary, and a section of a page about all these tables, in which it stands too.
///
/// # Errors
/// Never: a string takes all.
pub(crate) fn section(tables: &[&Table]) -> Result<(Part, String), fmt::Error> {
    let all: Vec<Row<'_>> = tables.iter().flat_map(|table| rows(table)).collect();
    let compared = number(all.len() as f64);
    let summary = summary(&all);
    let mut lost: Vec<Row<'_>> = all.into_iter().filter(|row| row.ratio > 1.0).collect();
    lost.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let mut page = String::from("## Where the wheel loses\n\n");
    writeln!(
        page,
        "This page compares ours with a rival's {compared} times. Ours is worse in {}.",
        lost.len()
    )?;
    writeln!(page, "The tables in which it is, the worst first:\n\n{summary}")?;
    writeln!(
        page,
        "All of them. How many times as much ours takes is the ratio in the table named, or else the one value divided \
         by the other.\n"
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
    Ok((summary, page))
}

/// All that the table compares with rivals.
fn rows(table: &Table) -> impl Iterator<Item = Row<'_>> {
    let of_ratios = table.ratios.iter().filter_map(|ratio| Some((ratio.column, ratio.sides?))).flat_map(
        move |(column, (ours, rival))| {
            table.rows.iter().filter_map(move |row| {
                let ratio = row[column].replace(',', "").parse().ok()?;
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
    // Another of ours is no rival.
    of_ratios.chain(of_duels).filter(|row| !row.rival.contains("(timingwheel"))
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
