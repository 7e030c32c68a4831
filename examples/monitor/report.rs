//! The figures of the scrapes, and whether they add up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::HumanFloatCount;
use timingwheel::Stats;

use crate::ledger::Ledger;
use crate::load::Books;
use crate::scraper::{Scrape, Scrapes};

/// A count of a scrape, which is whole and not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters of what happened in minutes"
)]
const fn count(value: f64) -> u64 {
    value as u64
}

fn duration(seconds: Option<f64>) -> Duration {
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// For the progress bar: how it stands, and what was since the last scrape.
pub(crate) fn line(last: &Scrape, now: &Scrape) -> String {
    format!(
        "{} pending, {} fired, 99 % within {:.1} ms",
        HumanFloatCount(now.value("pending")),
        HumanFloatCount(now.value("fired_total")),
        duration(now.quantile_since(last, "lateness_seconds", 0.99)).as_secs_f64() * 1e3,
    )
}

/// Counts that do not add up in the last scrape, when no timer is left.
pub(crate) fn at_rest(last: &Scrape, stats: &Stats, books: &Books) -> Vec<String> {
    let [armed, fired, cancelled] =
        ["armed_total", "fired_total", "cancelled_total"].map(|name| last.value(name));
    let pending = last.value("pending");
    let [late, late_by] = ["lateness_seconds_count", "lateness_seconds_sum"].map(|name| last.value(name));
    let most_timers = books.most_timers() as f64;
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
        (armed, fired, cancelled) == (stats.armed as f64, stats.fired as f64, stats.cancelled as f64),
        format!("what was scraped is not what the wheel counts: {stats:?}"),
    );
    // Each call ends with one of its two timers, unless that was due before it was polled.
    expect(
        books.calls() > 0 && armed <= most_timers,
        format!("{armed} timers were armed, and {most_timers} made at the most"),
    );
    let seconds_late = stats.lateness.quantile(1.0).unwrap_or_default().as_secs_f64() * late;
    expect(
        late == stats.lateness.count() as f64 && late_by > 0.0 && late_by <= seconds_late,
        format!("{late} timers were scraped as late by {late_by} s together, the wheel tells {stats:?}"),
    );
    problems
}

/// Prints the closing table, and returns what does not add up.
pub(crate) fn print(scrapes: &Scrapes, books: &Books) -> Vec<String> {
    let Scrapes { first, last, number, most_pending } = scrapes;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut ledger = Ledger::new("scraped");
    ledger
        .total("calls", books.calls())
        .part("answered", load(&books.answered))
        .part("timed out", load(&books.timed_out))
        .total("timers armed", count(last.value("armed_total")))
        .part("fired", count(last.value("fired_total")))
        .part("cancelled", count(last.value("cancelled_total")))
        .part_expected("pending at the end", count(last.value("pending")), 0)
        .total("most timers pending in one scrape", count(*most_pending))
        .total("moves of a timer to a finer level", count(last.value("cascaded_total")))
        .total("turns of the wheel", count(last.value("turns_total")))
        .of_these("late by more than 10 ms", count(last.value("stalls_total")), None)
        .total("scrapes", *number)
        .lateness("timers late", |share| duration(last.quantile_since(first, "lateness_seconds", share)))
        .lateness("locks held by turns", |share| {
            duration(last.quantile_since(first, "lock_hold_seconds", share))
        });
    ledger.print(
        "What it means: the scrapes agree with the load. Each timer that was armed has\n\
         fired or was cancelled.",
    )
}
