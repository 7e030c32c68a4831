//! A report: a page of tables, and charts beside it.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::case::Outcome;
use super::kept::Kept;
use super::losses::Losses;
use super::part::Part;
use super::table::Table;
use super::{bars, chart};

/// The command that makes the whole of it again.
const COMMAND: &str = "cargo bench --bench suite -- --report benches/report";

/// What `benches/http_load` measures with a load generator, and where it may have written that, in the same folder.
const LOAD: (&str, &str) = ("http_load", "http_load.md");

/// Points a reader to the page that explains the words.
const INTRODUCTION: &str = "This page has every figure. [Benchmarks](../../docs/benchmarks.md) says what to take from them, \
                            and explains the words.";

/// By which a report is known.
const HEADING: &str = "# Measured";

pub(crate) struct Report {
    page: String,
    /// What the page on benchmarks shows too.
    parts: Vec<Part>,
    /// Names of files, and what they hold.
    charts: Vec<(String, String)>,
}

impl Report {
    /// Renders all of it.
    ///
    /// # Errors
    /// If a chart cannot be drawn, or if two have the same name; or if a column seems to be of ratios and does not say
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
        let Losses { lost, missed, section } = Losses::of(&tables)?;
        writeln!(page, "{section}")?;
        let parts = vec![
            Part::new("Made on", made_on.untitled().to_string()),
            Part::new("By name", beside_tokio(&tables, "Targets", |what| what.starts_with(BY_NAME))),
            Part::new("By handle", beside_tokio(&tables, "Targets", |what| !what.starts_with(BY_NAME))),
            Part::new("Under load", beside_tokio(&tables, "Targets under load", |_| true)),
            lost,
            missed,
        ];
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
            if outcome.findings.charts.is_empty() && outcome.findings.tables.iter().all(is_shared) {
                // All of it stands above.
                continue;
            }
            writeln!(page, "## {}\n\n{}\n", outcome.name, outcome.question)?;
            for table in &outcome.findings.tables {
                if !is_shared(table) {
                    writeln!(page, "{table}")?;
                }
            }
            for chart in &outcome.findings.charts {
                let file = format!("{}.svg", chart.file);
                if charts.iter().any(|(name, _)| *name == file) {
                    return Err(format!("two charts have the name {file}").into());
                }
                writeln!(page, "![{}]({file})\n", chart.caption())?;
                charts.push((file, chart::draw(chart)?));
            }
        }
        Ok(Self { page: format!("{}\n", page.trim_end()), parts, charts })
    }

    /// Writes it into a folder, and takes away the charts that an earlier one showed.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let page = directory.join("README.md");
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

    /// The text of a page with its parts in place of those of an earlier report.
    ///
    /// # Errors
    /// If the page has no place for one of them.
    pub(crate) fn renew_parts(&self, page: &str) -> Result<String, String> {
        self.parts.iter().try_fold(page.to_owned(), |page, part| {
            part.renew(&page).ok_or_else(|| format!("the page has no place for «{}»", part.name()))
        })
    }
}

/// Begins the rows of timers that are made by `timingwheel::time`.
const BY_NAME: &str = "by name, ";

/// The rows of a table that `is_wanted` by their names, beside tokio's alone.
fn beside_tokio(tables: &[&Table], title: &str, is_wanted: fn(&str) -> bool) -> String {
    let header = ["what", "ours", "tokio", "ratio"];
    let rows = tables.iter().filter(|table| table.title == title).flat_map(|table| {
        let place = |name| table.header.iter().position(|title| title == name);
        let columns = header.map(|name| place(name).expect("tables of targets have these columns"));
        table.rows.iter().map(move |row| columns.map(|column| row[column].clone()))
    });
    // Without tokio's there is nothing to compare.
    let rows = rows.filter(|row| is_wanted(&row[0]) && !row[2].is_empty());
    rows.fold(Table::new(title, header), |table, mut row| {
        if let Some(rest) = row[0].strip_prefix(BY_NAME) {
            row[0] = rest.to_owned();
        }
        table.row(row)
    })
    .untitled()
    .to_string()
}

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
