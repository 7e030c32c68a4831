//! A report: a page of tables, and bars beside it.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};

use super::bars;
use super::case::Outcome;
use super::page::short;
use super::table::{MISSED, Rival, Table, number, ratio_in};

/// The command that makes the whole of it again.
const COMMAND: &str = "cargo bench --bench suite -- --report benches/report";

/// What `benches/http_load` measures with a load generator, and where it may have written that, in the same folder.
const LOAD: (&str, &str) = ("http_load", "http_load.md");

/// Points a reader to the page that explains the words.
const INTRODUCTION: &str = "This page has every figure. [Benchmarks](../../../docs/benchmarks.md) says what to take from \
                            them, and explains the words.";

/// By which a report is known, and the name of its file.
pub(crate) const HEADING: &str = "# Measured";
pub(crate) const FOLDER_PAGE: &str = "README.md";

/// The lines above the tables that the page on benchmarks shows too.
pub(crate) struct Titles;

impl Titles {
    pub(crate) const MADE_ON: &str = "### Made on";
    pub(crate) const TARGETS: &str = "### Targets";
    pub(crate) const UNDER_LOAD: &str = "### Targets under load";
    pub(crate) const LOST_TO_TOKIO: &str = "Beside tokio and tokio-util:";
    pub(crate) const LOST_TO_OTHERS: &str =
        "Beside other timers and structures, the worst loss in each table of the report:";
    pub(crate) const MISSED: &str = "### Missed targets";
}

pub(crate) struct Report {
    page: String,
    /// Names of files, and what they hold.
    charts: Vec<(String, String)>,
}

impl Report {
    /// Renders all of it.
    ///
    /// # Errors
    /// If a chart cannot be drawn, or if a column seems to be of ratios and does not say
    /// how they are made.
    pub(crate) fn new(Kept { made_on, outcomes, left_out }: &Kept) -> Result<Self, Box<dyn Error>> {
        let mut page = format!("{HEADING}\n\n");
        if left_out.is_empty() {
            writeln!(page, "Made by `{COMMAND}`, each case in a process of its own. {INTRODUCTION}\n")?;
        } else {
            let names = left_out.join(", ");
            writeln!(
                page,
                "**Partial**: `{COMMAND}` makes the whole. These cases were left out: {names}.\n"
            )?;
        }
        writeln!(page, "{made_on}")?;

        // A table that several cases add to stands before them all.
        let mut shared: Vec<(Table, usize)> = Vec::new();
        for table in outcomes.iter().flat_map(|outcome| &outcome.findings.tables) {
            match shared.iter_mut().find_map(|(whole, parts)| whole.absorb(table).then_some(parts)) {
                Some(parts) => *parts += 1,
                None => shared.push((table.clone(), 1)),
            }
        }
        shared.iter().try_for_each(|(table, _)| declared(table))?;
        let tables: Vec<&Table> = shared.iter().map(|(table, _)| table).collect();
        writeln!(page, "{}", losses(&tables)?)?;
        shared.retain(|(_, parts)| *parts > 1);
        let mut charts = Vec::new();
        for (whole, _) in &shared {
            writeln!(page, "{whole}")?;
            let parts = outcomes
                .iter()
                .filter(|outcome| outcome.findings.tables.iter().any(|table| whole.is_part(table)));
            writeln!(page, "The cases that add to this table:\n")?;
            for Outcome { name, question, .. } in parts {
                writeln!(page, "- `{name}`: {question}")?;
            }
            writeln!(page)?;
            if let Some(svg) = bars::draw(whole)? {
                let file = format!("{}.svg", whole.title.to_lowercase().replace(' ', "_"));
                writeln!(page, "![{}]({file})\n", whole.title)?;
                charts.push((file, svg));
            }
        }
        for outcome in outcomes {
            let is_shared = |table: &Table| shared.iter().any(|(whole, _)| whole.is_part(table));
            if outcome.findings.tables.iter().all(is_shared) {
                // All of it stands above.
                continue;
            }
            writeln!(page, "## {}\n\n{}\n", outcome.name, outcome.question)?;
            for table in &outcome.findings.tables {
                if !is_shared(table) {
                    writeln!(page, "{table}")?;
                }
            }
        }
        Ok(Self { page: format!("{}\n", page.trim_end()), charts })
    }

    /// Writes it into a folder, and takes away the charts that an earlier one showed.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let page = directory.join(FOLDER_PAGE);
        let earlier = fs::read_to_string(&page).unwrap_or_default();
        // Only what a report names in this way: the folder may hold pictures of others.
        for name in
            earlier.split("](").skip(1).filter_map(|rest| rest.split_once(".svg)")).map(|(name, _)| name)
        {
            let chart = directory.join(format!("{name}.svg"));
            if earlier.starts_with(HEADING) && chart.exists() {
                fs::remove_file(chart)?;
            }
        }
        self.charts.iter().try_for_each(|(name, svg)| fs::write(directory.join(name), svg))?;
        let (load, its_page) = LOAD;
        let link = if directory.join(its_page).exists() {
            format!(
                "\n## {load}\n\nWhat do timers add to a request of a hyper server? \
                 [Measured with `wrk`]({its_page}), by `benches/{load} --report`.\n"
            )
        } else {
            String::new()
        };
        fs::write(page, format!("{}{link}", self.page))
    }
}

/// Begins the rows of timers that are made by `timingwheel::time`.
pub(crate) const BY_NAME: &str = "by name, ";

/// Fails if a column seems to be of ratios and does not say how they are made.
fn declared(table: &Table) -> Result<(), String> {
    let is_of_ratios = |title: &str| {
        title.split(' ').any(|word| word == "ratio")
            || [" / ", "divided by"].iter().any(|sign| title.contains(sign))
    };
    let mut ratios = table.header.iter().enumerate().filter(|(_, title)| is_of_ratios(title));
    let silent = ratios.find(|(column, _)| table.ratios.iter().all(|ratio| ratio.column != *column));
    match silent {
        Some((_, title)) => Err(format!("«{}» does not say how its column `{title}` is made", table.title)),
        None => Ok(()),
    }
}

// All that a report is made from, kept beside it: so that it can be drawn anew without being measured anew.

const FILE: &str = "findings.json";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Describes the machine.
    pub(crate) made_on: Table,
    pub(crate) outcomes: Vec<Outcome>,
    /// The names of the cases that did not run.
    pub(crate) left_out: Vec<String>,
}

impl Kept {
    /// The name of the processor, as a folder.
    pub(crate) fn folder(&self) -> String {
        let cpu = self.made_on.rows.iter().find(|row| row[0] == "CPU").map_or("", |row| &row[1]);
        short(cpu).to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }

    /// Whether a report's findings are kept in this folder.
    pub(crate) fn is_in(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// # Errors
    /// If there is no such file in the folder, or if another version of the suite wrote it.
    pub(crate) fn read(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let file = directory.join(FILE);
        let in_words = |error: &dyn Error| format!("{}: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| in_words(&error))?;
        Ok(serde_json::from_str(&text).map_err(|error| in_words(&error))?)
    }

    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(directory)?;
        Ok(fs::write(directory.join(FILE), serde_json::to_string(self)? + "\n")?)
    }
}

// Where ours is worse than a rival, and which targets it misses, as tables see it.

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

/// What the tables say of losses, as a section of the report.
fn losses(tables: &[&Table]) -> Result<String, fmt::Error> {
    let mut all: Vec<Row<'_>> = tables.iter().flat_map(|table| rows(table)).collect();
    all.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let mut section = format!("## Where the wheel loses\n\n{}\n### Every loss\n\n", lost(&all)?);
    let header = ["times worse", "what", "ours", "than", "in the table"];
    let every = all.iter().filter(|row| row.is_lost()).fold(Table::new("", header), |table, row| {
        table.row([&*number(row.ratio), &row.what, row.ours, row.rival, row.table])
    });
    write!(section, "{}\n{}\n\n{}", every.untitled(), Titles::MISSED, missed_targets(tables)?)?;
    Ok(section)
}

/// All losses beside tokio, and the worst of each other table. `all` begins with the worst.
fn lost(all: &[Row<'_>]) -> Result<String, fmt::Error> {
    let (lost, draws) = (all.iter().filter(|row| row.is_lost()), all.iter().filter(|row| row.is_draw));
    let [compared, losses, draws] = [all.len(), lost.clone().count(), draws.count()];
    let mut text = format!("Of {compared} comparisons the wheel loses {losses}, and {draws} are draws.\n");
    let (to_tokio, to_others): (Vec<_>, Vec<_>) = lost.partition(|row| row.is_of_tokio());

    writeln!(text, "\n{}\n", Titles::LOST_TO_TOKIO)?;
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
    writeln!(text, "\n{}\n", Titles::LOST_TO_OTHERS)?;
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
