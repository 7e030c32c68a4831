//! How long do the next instant and the parsing of an expression take, beside croner and `cron`?
//!
//! `cargo bench -p timingwheel-calendar-rivals`. With `-- --short` it only sees that all work. Each row is the median of rounds
//! in which the three take turns, so that what slows the machine slows all of them.

use std::hint::black_box;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use chrono::DateTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, Rule};

const ZONE: &str = "Europe/Berlin";

/// In 2096.
const END: i64 = 4_000_000_000;

/// Expressions that all three read; `cron` takes seconds first, and a `?` for either field of days.
const EXPRESSIONS: [&str; 6] =
    ["0 9 * * *", "*/15 * * * *", "0 9 * * MON-FRI", "30 2 1 * *", "0 0 29 2 *", "5,35 8-17 * * *"];

/// How long one call takes: of `calls` in a round.
fn time(calls: u32, mut call: impl FnMut()) -> Duration {
    let begin = Instant::now();
    for _ in 0..calls {
        call();
    }
    begin.elapsed() / calls
}

struct Row {
    name: String,
    /// Ours, croner's, `cron`'s.
    medians: [Duration; 3],
}

impl Row {
    fn of(name: String, rounds: usize, mut round: [&mut dyn FnMut() -> Duration; 3]) -> Self {
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..rounds {
            for (times, time) in times.iter_mut().zip(&mut round) {
                times.push(time());
            }
        }
        let medians = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        Self { name, medians }
    }

    fn ratio(&self) -> f64 {
        self.medians[0].as_secs_f64() / self.medians[1].as_secs_f64()
    }

    fn print(&self) {
        let [ours, croner, cron] = self.medians.map(|median| format!("{} ns", median.as_nanos()));
        println!("| {:<30} | {ours:>8} | {croner:>8} | {cron:>8} | {:>5.2} |", self.name, self.ratio());
    }
}

fn next_instants(expression: &str, rounds: usize, calls: u32) -> Row {
    let zone = TimeZone::get(ZONE).expect("a zone that is bundled");
    let start: Timestamp = "2026-05-13T10:07:11Z".parse().expect("an instant");
    let ours = Cron::parse(expression).expect("an expression").in_zone(zone.clone());
    let theirs = croner::Cron::from_str(expression).expect("an expression");
    let old = cron::Schedule::from_str(&format!("0 {expression}")).expect("an expression");
    let (chrono_zone, chrono_start) =
        (chrono_tz::Europe::Berlin, DateTime::from_timestamp(start.as_second(), 0).expect("an instant"));
    // Each goes on from what it found, through the days on which clocks change, and begins anew after some decades.
    let mut our_last = start;
    let mut next_of_ours = || {
        let next = black_box(&ours).after(black_box(our_last));
        our_last = next.filter(|at| at.as_second() < END).unwrap_or(start);
    };
    let begin = start.to_zoned(zone);
    let mut their_last = begin.clone();
    let mut next_of_theirs = || {
        let next = black_box(&theirs).find_next_occurrence(black_box(&their_last), false);
        their_last = next.ok().filter(|at| at.timestamp().as_second() < END).unwrap_or_else(|| begin.clone());
    };
    let old_begin = chrono_start.with_timezone(&chrono_zone);
    let mut old_last = old_begin;
    let mut next_of_old = || {
        let next = black_box(&old).after(black_box(&old_last)).next();
        old_last = next.filter(|at| at.timestamp() < END).unwrap_or(old_begin);
    };
    Row::of(
        format!("next: {expression}"),
        rounds,
        [&mut || time(calls, &mut next_of_ours), &mut || time(calls, &mut next_of_theirs), &mut || {
            time(calls, &mut next_of_old)
        }],
    )
}

fn parsing(expression: &str, rounds: usize, calls: u32) -> Row {
    let with_seconds = format!("0 {expression}");
    Row::of(
        format!("parse: {expression}"),
        rounds,
        [
            &mut || time(calls, || drop(black_box(Cron::parse(black_box(expression))))),
            &mut || time(calls, || drop(black_box(croner::Cron::from_str(black_box(expression))))),
            &mut || time(calls, || drop(black_box(cron::Schedule::from_str(black_box(&with_seconds))))),
        ],
    )
}

fn main() -> ExitCode {
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    // `cargo test --benches` runs it, too, to see that it works.
    let is_short = has("--short") || !has("--bench");
    let (rounds, calls) = if is_short { (3, 50) } else { (41, 5_000) };
    println!("| median                         |     ours |   croner |     cron | ratio |");
    println!("|--------------------------------|----------|----------|----------|-------|");
    let mut rows = Vec::new();
    for expression in EXPRESSIONS {
        rows.push(next_instants(expression, rounds, calls));
        rows.push(parsing(expression, rounds, calls));
    }
    rows.iter().for_each(Row::print);
    let slow: Vec<&Row> = rows.iter().filter(|row| !is_short && row.ratio() > 1.0).collect();
    slow.iter().for_each(|row| eprintln!("slower than croner: {}", row.name));
    if slow.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
