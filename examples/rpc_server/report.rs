//! The closing table, its checks, and the counts of a run.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use Figure::{Millis, Missing, Number, Seconds};
use Ratio::{Senseless, Shown};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};
use timingwheel_examples::{Count, cpu_time, in_words, unless_too_busy};

use crate::Outcome;

// The closing table.

/// A figure of a run, if the run has it.
enum Figure {
    Number(u64),
    Millis(Duration),
    Seconds(Duration),
    Missing,
}

/// A line of the table: what it shows, and whether the ratio of two runs says something.
type Line = (&'static str, fn(&Outcome) -> Figure, Ratio);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ratio {
    Shown,
    Senseless,
}

const LINES: &[Line] = &[
    ("requests", |run| Number(run.books.requests.get()), Shown),
    ("- done in time", |run| Number(run.books.done.get()), Senseless),
    ("- timed out", |run| Number(run.books.timed_out.get()), Senseless),
    ("  of these, with quick work", |run| Number(run.books.quick_cut_off.get()), Senseless),
    ("- not answered: closed as idle", |run| Number(run.books.unanswered.get()), Senseless),
    ("work started", |run| Number(run.books.work_started.get()), Senseless),
    ("- finished", |run| Number(run.books.work_finished.get()), Senseless),
    ("- stopped", |run| Number(run.books.work_stopped.get()), Senseless),
    ("  steps of it after the timeout", |run| Number(run.books.steps_after_timeout.get()), Senseless),
    ("connections, one after the other", |run| Number(run.books.connections.total()), Senseless),
    ("- closed by the server as idle", |run| Number(run.books.idle_closed.get()), Senseless),
    ("- closed by their clients", |run| Number(run.closed_by_clients()), Senseless),
    ("most connections at one time", |run| Number(run.peaks.connections), Senseless),
    ("timers made by server, clients", |run| Number(run.timers_made), Shown),
    ("- fired", |run| Number(run.lateness.fired()), Senseless),
    ("  of these, early", |run| Number(run.lateness.early.get()), Senseless),
    ("- dropped before their time", |run| Number(run.timers_dropped()), Senseless),
    ("most timers at one time", |run| Number(run.peaks.timers), Senseless),
    ("timers armed in the wheel", |run| count(run.stats.as_ref().map(|stats| stats.armed)), Senseless),
    ("- fired", |run| count(run.stats.as_ref().map(|stats| stats.fired)), Senseless),
    ("- cancelled", |run| count(run.stats.as_ref().map(|stats| stats.cancelled)), Senseless),
    ("most pending at one time", |run| count(run.peaks.pending.map(|pending| pending as u64)), Senseless),
    ("turns of the wheel", |run| count(run.stats.as_ref().map(|stats| stats.turns)), Senseless),
    ("late: half within", |run| Millis(run.lateness.quantile(0.5)), Shown),
    ("late: 99 % within", |run| Millis(run.lateness.quantile(0.99)), Shown),
    ("late: all within", |run| Millis(run.lateness.quantile(1.0)), Shown),
    ("CPU time of the process", |run| Seconds(run.spent.cpu), Shown),
    ("context switches of the process", |run| count(run.spent.switches), Shown),
];

fn count(count: Option<u64>) -> Figure {
    count.map_or(Missing, Number)
}

impl Figure {
    fn text(&self) -> String {
        match self {
            Number(count) => HumanCount(*count).to_string(),
            Millis(time) => format!("{:.2} ms", time.as_secs_f64() * 1e3),
            Seconds(time) => format!("{:.2} s", time.as_secs_f64()),
            Missing => "-".into(),
        }
    }

    /// For ratios.
    fn value(&self) -> Option<f64> {
        match self {
            Number(count) => Some(*count as f64),
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

// The checks at the end of a run.

/// The text if there are no problems.
pub(crate) const ALL_HOLD: &str = "\
It adds up: every request was answered or its connection closed; work that
started was finished, or stopped and did nothing after its timeout; silent
clients saw their connections closed; no timer fired early; none is left.";

/// Counts that do not add up at the end of a run, in words.
pub(crate) fn problems(outcome: &Outcome) -> Vec<String> {
    let Outcome { name, books, lateness, timers_left, stats, .. } = outcome;
    let [requests, done, timed_out, unanswered] =
        [&books.requests, &books.done, &books.timed_out, &books.unanswered].map(Count::get);
    let [started, finished, stopped] =
        [&books.work_started, &books.work_finished, &books.work_stopped].map(Count::get);
    let (silent, seen) = (books.went_silent.get(), books.close_seen.get());
    let left_open = books.connections.now();
    let mut problems = Vec::new();
    let mut check = |holds: bool, otherwise: String| {
        if !holds {
            problems.push(format!("{name}: {otherwise}"));
        }
    };

    check(requests > 0, "no request was made: the run is too short for the think time".into());
    check(
        requests == done + timed_out + unanswered,
        format!(
            "of {requests} requests {done} got done, {timed_out} timed out and {unanswered} were not answered"
        ),
    );
    check(
        started == finished + stopped,
        format!("work was started {started} times, but finished {finished} and stopped {stopped} times"),
    );
    check(
        finished == done && stopped == timed_out,
        format!(
            "clients were told that {done} requests got done and {timed_out} timed out, but work was finished \
             {finished} and stopped {stopped} times"
        ),
    );
    let after = books.steps_after_timeout.get();
    check(after == 0, format!("work did {after} steps after its request had timed out"));
    let slow = books.slow_done.get();
    // Work and its timeout may both be due when a thread that was held up goes on.
    if slow > 0 {
        unless_too_busy(format!("{name}: {slow} requests got done that should have timed out"));
    }
    check(silent == seen, format!("{silent} clients went silent, but {seen} saw the connection closed"));
    let closed = books.idle_closed.get();
    check(closed >= seen, format!("clients saw {seen} closes, but the server closed {closed} connections"));
    let early = books.closed_early.get();
    check(early == 0, format!("{early} connections were closed before the idle timeout"));
    check(left_open == 0, format!("{left_open} connections are still open"));
    let early = lateness.early.get();
    check(early == 0, format!("{early} timers fired early"));
    check(*timers_left == 0, format!("the program still holds {timers_left} timers"));

    if let Some(stats) = stats {
        let (armed, pending) = (stats.armed, stats.pending);
        check(armed > 0, "no timer reached the wheel".into());
        check(pending == 0, format!("{pending} timers are still pending in the wheel"));
        check(
            armed == stats.fired + stats.cancelled + pending as u64,
            format!(
                "{armed} timers were armed in the wheel, but {} fired, {} were cancelled and {pending} are pending",
                stats.fired, stats.cancelled
            ),
        );
    }
    problems
}

// How far a run is: a bar on a terminal, and a line now and then elsewhere.

/// How many lines there are in a run, where there is no terminal, and what is between them at least.
const PROGRESS_LINES: u32 = 4;
const BETWEEN_PROGRESS_LINES: Duration = Duration::from_secs(1);

pub(crate) struct Progress {
    name: &'static str,
    start: Instant,
    length: Duration,
    view: View,
}

enum View {
    Bar(ProgressBar),
    Lines { every: Duration, next: Duration },
}

impl Progress {
    pub(crate) fn start(name: &'static str, length: Duration) -> Self {
        let view = if std::io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a correct template");
            let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            View::Bar(ProgressBar::new(millis).with_style(style).with_prefix(name))
        } else {
            let every = BETWEEN_PROGRESS_LINES.max(length / PROGRESS_LINES);
            View::Lines { every, next: every }
        };
        Self { name, start: Instant::now(), length, view }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn show(&mut self, books: &Books, most_timers: u64) {
        let elapsed = self.elapsed();
        let state = || {
            let end = if elapsed < self.length { "" } else { ", closing" };
            format!(
                "{} connections, {} requests, {} timers{end}",
                HumanCount(books.connections.now()),
                HumanCount(books.requests.get()),
                HumanCount(most_timers)
            )
        };
        match &mut self.view {
            View::Bar(bar) => {
                bar.set_message(state());
                bar.set_position(u64::try_from(elapsed.min(self.length).as_millis()).unwrap_or(u64::MAX));
            }
            View::Lines { every, next } if elapsed >= *next => {
                eprintln!("{}, {:.1} s: {}", self.name, elapsed.as_secs_f64(), state());
                *next += *every;
            }
            View::Lines { .. } => {}
        }
    }

    pub(crate) fn finish(self) {
        if let View::Bar(bar) = self.view {
            bar.finish_and_clear();
        }
    }
}

// The counts of a run.

/// The counts of server and clients.
#[derive(Debug, Default)]
pub(crate) struct Books {
    // The server's.
    pub(crate) connections: Gauge,
    pub(crate) idle_closed: Count,
    pub(crate) work_started: Count,
    pub(crate) work_finished: Count,
    pub(crate) work_stopped: Count,
    pub(crate) steps_after_timeout: Count,
    // The clients'.
    pub(crate) requests: Count,
    pub(crate) done: Count,
    pub(crate) timed_out: Count,
    /// The connection was closed instead.
    pub(crate) unanswered: Count,
    /// Requests that got done though their work takes longer than the request timeout.
    pub(crate) slow_done: Count,
    /// Requests that were cut off though their work takes less than the request timeout.
    pub(crate) quick_cut_off: Count,
    pub(crate) went_silent: Count,
    pub(crate) close_seen: Count,
    /// Connections that were closed before the idle timeout.
    pub(crate) closed_early: Count,
}

/// Counts what there is, and what there has been.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    begun: Count,
    ended: Count,
}

impl Gauge {
    pub(crate) fn hold(&self) -> Held<'_> {
        self.begun.add();
        Held(self)
    }

    pub(crate) fn total(&self) -> u64 {
        self.begun.get()
    }

    pub(crate) fn now(&self) -> u64 {
        // Ends are read before beginnings, so that they are not more.
        let ended = self.ended.get();
        self.begun.get().saturating_sub(ended)
    }
}

/// One of what a [`Gauge`] counts, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.ended.add();
    }
}

// CPU time and context switches of this process, as the kernel counts them.

/// All threads together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// How often a thread left its core, on its own or not; nothing where the kernel does not tell.
    pub(crate) switches: Option<u64>,
}

impl Spent {
    /// Since the process began; threads that have ended count too.
    pub(crate) fn so_far() -> Self {
        let cpu = cpu_time().expect("not negative: the clock starts at zero with the process");
        let switches = getrusage(UsageWho::RUSAGE_SELF).ok().and_then(|usage| {
            u64::try_from(usage.voluntary_context_switches() + usage.involuntary_context_switches()).ok()
        });
        Self { cpu, switches }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            switches: self.switches.zip(before.switches).map(|(now, before)| now.saturating_sub(before)),
        }
    }
}
