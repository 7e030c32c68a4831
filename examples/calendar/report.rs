//! Compares the books with what should have run, and shows what the jobs did when the clocks were moved.

use std::error::Error;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;
use jiff::civil::{DateTime, date};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::books::{Minutes, Run};
use crate::year::Lived;

/// What a jump of the paused clock may add, by tokio's millisecond: it is less than two.
pub(crate) const JUMP: SignedDuration = SignedDuration::from_millis(2);

/// A day on which the clocks on the wall are moved.
struct Moved {
    at: Timestamp,
    before: Offset,
    after: Offset,
}

impl Moved {
    fn all(zone: &TimeZone, year: i16) -> Result<Vec<Self>, Box<dyn Error>> {
        let (begin, end) =
            (zone.to_timestamp(date(year, 1, 1).into())?, zone.to_timestamp(date(year + 1, 1, 1).into())?);
        let mut before = zone.to_offset(begin);
        let mut all = Vec::new();
        for transition in zone.following(begin).take_while(|transition| transition.timestamp() < end) {
            let after = transition.offset();
            if after != before {
                all.push(Self { at: transition.timestamp(), before, after });
            }
            before = after;
        }
        Ok(all)
    }

    /// What the clock on the wall shows there, before and after it is moved.
    fn shows(&self) -> (DateTime, DateTime) {
        (self.before.to_datetime(self.at), self.after.to_datetime(self.at))
    }

    /// How a job dealt with the times that are left out, or come twice.
    fn dealt_with(&self, runs: &[Run], lived: &Lived, zone: &TimeZone) -> String {
        if !(lived.from..lived.to).contains(&self.at) {
            return "-".into();
        }
        let (from, to) = self.shows();
        let times = from.min(to)..from.max(to);
        let mut concerned = runs.iter().filter(|run| times.contains(&run.occasion.asked_for));
        let Some(first) = concerned.next() else { return "not at that time".into() };
        let number = match concerned.count() {
            0 => "once".into(),
            more => format!("{} times, first", more + 1),
        };
        let asked_for = first.occasion.asked_for.strftime("%H:%M");
        let at = first.at.to_zoned(zone.clone());
        let at = at.strftime("%H:%M %Z");
        let comes = if from < to { "never comes" } else { "comes twice" };
        format!("{asked_for} {comes}: ran {number}, at {at}")
    }
}

/// Prints the year's table, and returns what does not add up.
pub(crate) fn report(
    zone: &TimeZone,
    year: i16,
    jobs: &[Lived],
    minutes: &Minutes,
) -> Result<Vec<String>, Box<dyn Error>> {
    let moved = Moved::all(zone, year)?;
    let mut table = Table::new();
    let header = ["job", "rule", "runs", "expected", "first", "last", "late, most"].map(String::from);
    let of_moved = moved.iter().map(|moved| {
        let (from, to) = moved.shows();
        format!("{} becomes {}", from.strftime("%d %b, %H:%M"), to.strftime("%H:%M"))
    });
    table.load_preset(ASCII_MARKDOWN).set_header(header.into_iter().chain(of_moved));
    let mut problems = Vec::new();
    for job in jobs {
        let runs = job.runs();
        let expected = minutes.asked_for(job.rule, job.from, job.to);
        let due: Vec<Timestamp> = runs.iter().map(|run| run.occasion.at).collect();
        if due != expected {
            let at = due.iter().zip(&expected).position(|(due, expected)| due != expected);
            let at = at.unwrap_or(due.len().min(expected.len()));
            problems.push(format!(
                "{}: {} runs, and not {}; run {at} was due at {:?}, and not {:?}",
                job.key,
                due.len(),
                expected.len(),
                due.get(at),
                expected.get(at)
            ));
        }
        let most = runs.iter().map(Run::late).max().unwrap_or_default();
        if most >= JUMP || runs.iter().any(|run| run.late().is_negative()) {
            problems.push(format!("{}: runs were early, or late by up to {most:?}", job.key));
        }
        let shown = |run: Option<&Run>| match run {
            Some(run) => run.at.to_zoned(zone.clone()).strftime("%d %b, %H:%M").to_string(),
            None => String::new(),
        };
        let count = |runs: usize| HumanCount(runs as u64).to_string();
        let cells = [
            job.key.into(),
            job.rule.to_string(),
            count(runs.len()),
            count(expected.len()),
            shown(runs.first()),
            shown(runs.last()),
            format!("{:.3} ms", most.as_secs_f64() * 1e3),
        ];
        table.add_row(cells.into_iter().chain(moved.iter().map(|moved| moved.dealt_with(&runs, job, zone))));
    }
    for column in [2, 3, 6] {
        let column = table.column_mut(column).ok_or("the table has fewer columns")?;
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    Ok(problems)
}
