//! The page on benchmarks: what the reports of several processors say, side by side. Reports are read as they are shown,
//! so the page says what they say, whoever made them.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::report::{BY_NAME, FOLDER_PAGE, HEADING, Titles};
use super::table::Table;

/// The report of one processor.
pub(crate) struct Measured {
    /// Its processor, for the titles of columns.
    cpu: String,
    page: String,
}

/// All reports whose folders lie in this one, by the names of the folders.
///
/// # Errors
/// If a folder or a page cannot be read.
pub(crate) fn read(directory: &Path) -> io::Result<Vec<Measured>> {
    let folders = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    let mut pages: Vec<_> = folders.iter().map(|folder| folder.path().join(FOLDER_PAGE)).collect();
    pages.retain(|page| page.exists());
    pages.sort();
    let read = pages.iter().map(|page| {
        let page = fs::read_to_string(page)?;
        let which = rows(&page, Titles::MADE_ON).find(|row| row[0] == "CPU").map(|row| short(&row[1]));
        Ok(Measured { cpu: which.unwrap_or_default(), page })
    });
    Ok(read
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .filter(|one| one.page.starts_with(HEADING))
        .collect())
}

/// A processor's name without marks and what all have: `Intel(R) Xeon(R) Processor` is `Intel Xeon`.
pub(crate) fn short(cpu: &str) -> String {
    let words = cpu.split_whitespace().map(|word| word.replace("(R)", "").replace("(TM)", ""));
    words.filter(|word| !["Processor", "CPU"].contains(&&**word)).collect::<Vec<_>>().join(" ")
}

/// The text of the page with what the reports say in place of what earlier ones said.
///
/// # Errors
/// If the page has no place for a part.
pub(crate) fn renew(page: &str, reports: &[Measured]) -> Result<String, String> {
    let is_by_name = |what: &str| what.starts_with(BY_NAME);
    [
        ("Made on", made_on(reports)),
        ("By name", beside_tokio(reports, Titles::TARGETS, is_by_name)),
        ("By handle", beside_tokio(reports, Titles::TARGETS, |what| !is_by_name(what))),
        ("Under load", beside_tokio(reports, Titles::UNDER_LOAD, |_| true)),
        ("Where the wheel loses", losses(reports)),
        ("Missed targets", missed(reports)),
    ]
    .into_iter()
    .try_fold(page.to_owned(), |page, (name, text)| {
        let begin = format!("<!-- {name}: made with the reports. -->\n");
        let parts =
            page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.ok_or_else(|| format!("the page has no place for «{name}»"))?;
        Ok(format!("{before}{begin}\n{text}\n{END}{after}"))
    })
}

const END: &str = "<!-- End. -->\n";
/// Stands for a figure that a report does not have.
const NONE: &str = "-";

fn made_on(reports: &[Measured]) -> String {
    side_by_side(reports, ["what"], [""], |page| {
        rows(page, Titles::MADE_ON).map(|row| ([row[0].clone()], [row[1].clone()])).collect()
    })
}

/// The rows of a table of targets that are wanted, as far as they have tokio's figure.
fn beside_tokio(reports: &[Measured], title: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    side_by_side(reports, ["what"], ["ours", "tokio", "ratio"], |page| {
        let header = header(page, title);
        let place = |name| header.iter().position(|title| title == name);
        // A report of a part of the cases may have no such table.
        let [Some(ours), Some(tokio), Some(ratio)] = ["ours", "tokio", "ratio"].map(place) else {
            return Vec::new();
        };
        let columns = [ours, tokio, ratio];
        // Without tokio's there is nothing to compare.
        let wanted = rows(page, title).filter(|row| is_wanted(&row[0]) && !row[columns[1]].is_empty());
        let named = |row: Vec<String>| {
            let what = row[0].strip_prefix(BY_NAME).unwrap_or(&row[0]).to_owned();
            ([what], columns.map(|column| row[column].clone()))
        };
        wanted.map(named).collect()
    })
}

/// All losses beside tokio, and the worst of each other table.
fn losses(reports: &[Measured]) -> String {
    let mut text = String::new();
    for Measured { cpu, page } in reports {
        let count = page.lines().find(|line| line.starts_with("Of ") && line.contains("the wheel loses"));
        writeln!(text, "{cpu}: {}\n", count.unwrap_or(NONE)).expect("a string takes all");
    }
    let to_tokio = side_by_side(reports, ["what"], ["times worse"], |page| {
        rows(page, Titles::LOST_TO_TOKIO).map(|row| ([row[0].clone()], [row[2].clone()])).collect()
    });
    let to_others = side_by_side(reports, ["what", "than"], ["times worse"], |page| {
        let keyed = |row: Vec<String>| ([row[0].clone(), row[3].clone()], [row[2].clone()]);
        rows(page, Titles::LOST_TO_OTHERS).map(keyed).collect()
    });
    write!(text, "{}\n\n{to_tokio}\n{}\n\n{to_others}", Titles::LOST_TO_TOKIO, Titles::LOST_TO_OTHERS)
        .expect("a string takes all");
    text
}

fn missed(reports: &[Measured]) -> String {
    let mut text = String::new();
    for Measured { cpu, page } in reports {
        let count = page.lines().find(|line| line.starts_with("Of ") && line.ends_with("are missed."));
        writeln!(text, "{cpu}: {}\n", count.unwrap_or(NONE)).expect("a string takes all");
    }
    text + &side_by_side(reports, ["what", "target"], ["is"], |page| {
        let keyed = |row: Vec<String>| ([row[0].clone(), row[2].clone()], [row[1].clone()]);
        rows(page, Titles::MISSED).map(keyed).collect()
    })
}

/// What a report says of each key.
type Said<const K: usize, const V: usize> = Vec<([String; K], [String; V])>;

/// A table with columns for each report, and a row for each key that any of them has.
fn side_by_side<const K: usize, const V: usize>(
    reports: &[Measured],
    keys: [&str; K],
    values: [&str; V],
    said: impl Fn(&str) -> Said<K, V>,
) -> String {
    let all: Vec<Said<K, V>> = reports.iter().map(|report| said(&report.page)).collect();
    let titles = reports.iter().flat_map(|report| {
        // The first names the processor, and the others are its own too.
        let title = |(at, value): (usize, &str)| match (at, value) {
            (0, "") => report.cpu.clone(),
            (0, value) => format!("{}: {value}", report.cpu),
            _ => value.to_owned(),
        };
        values.into_iter().enumerate().map(title).collect::<Vec<_>>()
    });
    let mut table = Table::new("", keys.into_iter().map(str::to_owned).chain(titles));
    let mut seen: Vec<&[String; K]> = Vec::new();
    for (key, _) in all.iter().flatten() {
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let of =
            |said: &Said<K, V>| said.iter().find(|(other, _)| other == key).map(|(_, values)| values.clone());
        let cells = all.iter().flat_map(|said| of(said).unwrap_or_else(|| [NONE; V].map(Into::into)));
        table = table.row(key.iter().cloned().chain(cells));
    }
    table.untitled().to_string()
}

// A report's tables, as they are shown.

/// The table below this line: its header, a rule, and its rows.
fn table<'a>(page: &'a str, title: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let after = page.lines().skip_while(move |line| *line != title).skip(1);
    // A table without a row is not taken for the next one.
    let until_next = after.take_while(|line| !line.starts_with('#'));
    let lines = until_next.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace("\\|", "|")).collect())
}

fn header(page: &str, title: &str) -> Vec<String> {
    table(page, title).next().unwrap_or_default()
}

fn rows<'a>(page: &'a str, title: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    table(page, title).skip(2)
}
