//! The closing table.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;

use crate::compared::in_words;
use crate::run::Outcome;

/// A figure of a run, if the run has it.
enum Figure {
    Count(u64),
    Millis(Duration),
    Seconds(Duration),
    Missing,
}

use Figure::{Count, Millis, Missing, Seconds};

/// A line of the table: what it shows, and whether the ratio of two runs says something.
type Line = (&'static str, fn(&Outcome) -> Figure, Ratio);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ratio {
    Shown,
    Senseless,
}

use Ratio::{Senseless, Shown};

const LINES: &[Line] = &[
    ("requests", |run| Count(run.books.requests.get()), Shown),
    ("- done in time", |run| Count(run.books.done.get()), Senseless),
    ("- timed out", |run| Count(run.books.timed_out.get()), Senseless),
    ("  of these, with quick work", |run| Count(run.books.quick_cut_off.get()), Senseless),
    ("- not answered: closed as idle", |run| Count(run.books.unanswered.get()), Senseless),
    ("work started", |run| Count(run.books.work_started.get()), Senseless),
    ("- finished", |run| Count(run.books.work_finished.get()), Senseless),
    ("- stopped", |run| Count(run.books.work_stopped.get()), Senseless),
    ("  steps of it after the timeout", |run| Count(run.books.steps_after_timeout.get()), Senseless),
    ("connections, one after the other", |run| Count(run.books.connections.total()), Senseless),
    ("- closed by the server as idle", |run| Count(run.books.idle_closed.get()), Senseless),
    ("- closed by their clients", |run| Count(run.closed_by_clients()), Senseless),
    ("most connections at one time", |run| Count(run.peaks.connections), Senseless),
    ("timers made by server, clients", |run| Count(run.timers_made), Shown),
    ("- fired", |run| Count(run.lateness.fired()), Senseless),
    ("  of these, early", |run| Count(run.lateness.early), Senseless),
    ("- dropped before their time", |run| Count(run.timers_dropped()), Senseless),
    ("most timers at one time", |run| Count(run.peaks.timers), Senseless),
    ("timers armed in the wheel", |run| count(run.stats.as_ref().map(|stats| stats.armed)), Senseless),
    ("- fired", |run| count(run.stats.as_ref().map(|stats| stats.fired)), Senseless),
    ("- cancelled", |run| count(run.stats.as_ref().map(|stats| stats.cancelled)), Senseless),
    ("most pending at one time", |run| count(run.peaks.pending.map(|pending| pending as u64)), Senseless),
    ("turns of the wheel", |run| count(run.stats.as_ref().map(|stats| stats.turns)), Senseless),
    ("late: half within", |run| Millis(run.lateness.quantile(0.5)), Shown),
    ("late: 99 % within", |run| Millis(run.lateness.quantile(0.99)), Shown),
    ("late: all within", |run| Millis(run.lateness.max()), Shown),
    ("CPU time of the process", |run| Seconds(run.spent.cpu), Shown),
    ("context switches of the process", |run| count(run.spent.switches), Shown),
];

fn count(count: Option<u64>) -> Figure {
    count.map_or(Missing, Count)
}

impl Figure {
    fn text(&self) -> String {
        match self {
            Count(count) => HumanCount(*count).to_string(),
            Millis(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3),
            Seconds(time) => format!("{:.2} s", time.as_secs_f64()),
            Missing => "-".into(),
        }
    }

    /// For ratios.
    fn value(&self) -> Option<f64> {
        match self {
            Count(count) => Some(*count as f64),
            Millis(time) | Seconds(time) => Some(time.as_secs_f64()),
            Missing => None,
        }
    }
}

/// Prints the runs side by side, and if there are two, the first divided by the second.
pub(crate) fn print(outcomes: &[Outcome]) {
    let mut header: Vec<String> = vec![String::new()];
    header.extend(outcomes.iter().map(|outcome| outcome.name.into()));
    if outcomes.len() == 2 {
        header.push("ratio".into());
    }

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for (name, figure, ratio) in LINES {
        let figures: Vec<Figure> = outcomes.iter().map(figure).collect();
        let mut row = vec![(*name).to_owned()];
        row.extend(figures.iter().map(Figure::text));
        if let [first, second] = &*figures {
            row.push(if *ratio == Shown { quotient(first, second) } else { String::new() });
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let ratio = if outcomes.len() == 2 { " ratio: timing wheel / tokio::time" } else { "" };
    println!("\n{table}\n\nRows with a dash add up to the row above them.{ratio}");
    if let [wheel, tokio] = outcomes {
        print_meaning(wheel, tokio);
    }
}

/// The closing lines, which say what the table means.
fn print_meaning(wheel: &Outcome, tokio: &Outcome) {
    let [ours, tokios] = [wheel, tokio].map(|run| Millis(run.lateness.quantile(0.5)).text());
    let cpu = in_words(wheel.spent.cpu.as_secs_f64(), tokio.spent.cpu.as_secs_f64());
    println!("\nWhat it means:");
    println!("- Lateness: half of the wheel's timers within {ours}, tokio's within {tokios}.");
    println!("- CPU time: {cpu} with tokio::time. Timers are a small part of it.");
    if [wheel, tokio].iter().all(|run| run.books.steps_after_timeout.get() == 0) {
        println!("- A request that timed out stopped its work: no step of it came later.");
    }
}

fn quotient(first: &Figure, second: &Figure) -> String {
    match (first.value(), second.value()) {
        (Some(first), Some(second)) if second > 0.0 => format!("{:.2}", first / second),
        _ => Missing.text(),
    }
}
