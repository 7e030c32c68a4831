//! What the scrapes tell, and whether it adds up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{HumanCount, HumanFloatCount};
use timingwheel::Stats;

use crate::load::Books;
use crate::scraper::Scrape;

fn count(value: f64) -> String {
    HumanFloatCount(value).to_string()
}

fn within(seconds: Option<f64>) -> String {
    let bound = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    bound.map_or_else(|| "-".to_owned(), |bound| format!("{:.3} ms", bound.as_secs_f64() * 1e3))
}

/// For the progress bar: how it stands, and what was since the last scrape.
pub(crate) fn line(last: &Scrape, now: &Scrape) -> String {
    format!(
        "{} pending, {} fired, 99 % within {}",
        count(now.value("pending")),
        count(now.value("fired_total")),
        within(now.quantile_since(last, "lateness_seconds", 0.99)),
    )
}

/// What does not add up in the last scrape, when no timer is left.
pub(crate) fn at_rest(scrapes: &[Scrape], stats: &Stats, books: &Books) -> Vec<String> {
    let Some(last) = scrapes.last() else { return vec!["nothing was scraped".to_owned()] };
    let [armed, fired, cancelled] =
        ["armed_total", "fired_total", "cancelled_total"].map(|name| last.value(name));
    let pending = last.value("pending");
    let late = last.buckets("lateness_seconds").last().map_or(f64::NAN, |&(_, all)| all);
    let calls = books.calls() as f64;
    let mut problems = Vec::new();
    let mut expect = |holds: bool, words: String| {
        if !holds {
            problems.push(words);
        }
    };
    expect(last.value("up") == 1.0, "the wheel is not up".to_owned());
    expect(pending == 0.0, format!("{pending} timers are left"));
    expect(last.pending_on_levels() == 0.0, "timers are left on a level".to_owned());
    expect(
        armed == fired + cancelled + pending,
        format!("{armed} armed timers are not {fired} fired, {cancelled} cancelled and {pending} pending"),
    );
    expect(
        (armed, fired, cancelled) == (stats.armed as f64, stats.fired as f64, stats.cancelled as f64),
        format!("what was scraped is not what the wheel counts: {stats:?}"),
    );
    // Each call ends with one of its two timers, unless that was due before it was polled.
    expect(calls > 0.0 && armed <= 2.0 * calls, format!("{armed} timers for {calls} calls of two each"));
    expect(
        late > 0.0 && late <= fired,
        format!("{late} timers in the histogram of lateness, and {fired} fired"),
    );
    problems
}

/// The closing table.
pub(crate) fn print(scrapes: &[Scrape], books: &Books) {
    let ([first, ..], Some(last)) = (scrapes, scrapes.last()) else { return };
    let most = |name: &str| scrapes.iter().map(|scrape| scrape.value(name)).fold(0.0, f64::max);
    let late = |quantile| within(last.quantile_since(first, "lateness_seconds", quantile));
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["what was scraped", ""]);
    for (what, value) in [
        ("scrapes", HumanCount(scrapes.len() as u64).to_string()),
        ("calls answered", HumanCount(books.answered.load(Ordering::Relaxed)).to_string()),
        ("calls timed out", HumanCount(books.timed_out.load(Ordering::Relaxed)).to_string()),
        ("timers armed", count(last.value("armed_total"))),
        ("timers fired", count(last.value("fired_total"))),
        ("timers cancelled", count(last.value("cancelled_total"))),
        ("most pending in a scrape", count(most("pending"))),
        ("moved down", count(last.value("cascaded_total"))),
        ("turns of the wheel", count(last.value("turns_total"))),
        ("stalls", count(last.value("stalls_total"))),
        ("late, half within", late(0.5)),
        ("late, 99 % within", late(0.99)),
        ("late, all within", late(1.0)),
        ("locks held by turns, all within", within(last.quantile_since(first, "lock_hold_seconds", 1.0))),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
