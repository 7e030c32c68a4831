//! A small calendar of some months, side by side, with the days marked that have a run.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel_calendar::{Plan, Rule};

use crate::changes;

/// As many as fit beside each other in 80 columns.
const MONTHS: usize = 3;
/// Of a month: seven days of a mark and two digits, and a gap.
const WIDTH: usize = 24;

/// The first instant of a day.
pub(crate) fn begin(day: Date, zone: &TimeZone) -> Timestamp {
    zone.to_timestamp(day.at(0, 0, 0, 0)).unwrap_or(Timestamp::MAX)
}

/// The instants of a day, or the first few.
pub(crate) fn runs_on(day: Date, rule: &Plan, zone: &TimeZone, few: usize) -> Vec<Timestamp> {
    let (from, to) = (begin(day, zone), day.tomorrow().map_or(Timestamp::MAX, |next| begin(next, zone)));
    let before = from.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(from);
    rule.upcoming(before).take_while(|&at| at < to).take(few).collect()
}

/// The first days of the next months in which the rule has a run.
pub(crate) fn with_runs(rule: &Plan, zone: &TimeZone, from: Timestamp) -> Vec<Date> {
    let mut months = Vec::new();
    let mut last = from;
    while months.len() < MONTHS
        && let Some(next) = rule.after(last)
    {
        let month = zone.to_datetime(next).date().first_of_month();
        months.push(month);
        let Ok(following) = month.last_of_month().tomorrow() else { break };
        // What is due at the very beginning of a month is after the instant before it.
        let end =
            begin(following, zone).saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX);
        last = end.max(next);
    }
    months
}

/// Seven cells for each week of a month; a run that has passed is not marked.
fn weeks(month: Date, rule: &Plan, zone: &TimeZone, from: Timestamp) -> Vec<String> {
    let blank = usize::from(month.weekday().to_monday_zero_offset().unsigned_abs());
    let mut cells: Vec<String> = vec!["   ".into(); blank];
    for day in month.series(jiff::ToSpan::days(1)).take_while(|day| day.month() == month.month()) {
        let runs = runs_on(day, rule, zone, usize::MAX).iter().any(|&at| at > from);
        let mark = match (runs, changes::on(day, zone).is_some()) {
            (true, true) => '#',
            (true, false) => '*',
            (false, true) => '~',
            (false, false) => ' ',
        };
        cells.push(format!("{mark}{:>2}", day.day()));
    }
    cells.chunks(7).map(<[String]>::concat).collect()
}

pub(crate) fn print(months: &[Date], rule: &Plan, zone: &TimeZone, from: Timestamp) {
    if months.is_empty() {
        return;
    }
    let columns: Vec<Vec<String>> = months
        .iter()
        .map(|&month| {
            let title = month.strftime("%B %Y").to_string();
            let mut lines = vec![format!("{title:^21}"), " Mo Tu We Th Fr Sa Su".into()];
            lines.extend(weeks(month, rule, zone, from));
            lines
        })
        .collect();
    println!();
    for line in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        let parts = columns.iter().map(|column| column.get(line).map_or("", String::as_str));
        let text: String = parts.map(|part| format!("{part:<WIDTH$}")).collect();
        println!("{}", text.trim_end());
    }
    println!("\n * runs   ~ clocks change   # runs, and clocks change");
}
