//! What do timers cost a server with thousands of connections, how late do they fire, and does the work behind a request
//! that ran out of time really stop?
//!
//! `cargo run --release -p timingwheel-examples --example rpc_server`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! `serve` in `server.rs` is the code to copy: each connection has an idle timer that moves with every request, and each
//! request runs under a timeout. That file is compiled twice, in `on_tokio.rs` and in `on_wheel.rs`. This is all that
//! changes between them:
//!
//! ```diff
//! - use tokio::time;
//! + use timingwheel::time;
//! ```
//!
//! Server and clients run in this process. A run before these pays for new memory and is not counted. The table has both
//! side by side; if a count does not add up, the program says so and fails.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod on_tokio;
mod on_wheel;

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// A connection without a request for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Of a hundred requests so many take longer than they may, and so many are a connection's last.
const SLOW: u64 = 5;
const SILENT: u64 = 2;

/// What clients do.
#[derive(Clone, Copy)]
struct Load {
    connections: u64,
    until: Instant,
    think: Duration,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    done: AtomicU64,
    timed_out: AtomicU64,
    held_up: AtomicU64,
    finished: AtomicU64,
    stopped: AtomicU64,
    silent: AtomicU64,
    closed_idle: AtomicU64,
    early: AtomicU64,
    late: Mutex<Option<Histogram<u64>>>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

impl Counts {
    /// Notes that a timer for `deadline` has fired now.
    fn fired(&self, deadline: Instant) {
        let Some(late) = Instant::now().checked_duration_since(deadline) else { return add(&self.early) };
        let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_with(|| Histogram::new(3).expect("three digits"));
        all.record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)).expect("it grows as needed");
    }
}

/// A run to its end.
struct Outcome {
    counts: Arc<Counts>,
    /// In the wheel.
    armed: u64,
    /// CPU time.
    micros: i64,
    switches: i64,
}

impl Outcome {
    /// Milliseconds within which this share of the timers fired.
    fn within(&self, share: f64) -> f64 {
        let all = self.counts.late.lock().unwrap_or_else(PoisonError::into_inner);
        all.as_ref().map_or(0, |all| all.value_at_quantile(share)) as f64 / 1e6
    }

    /// A slow machine serves not as many requests in one run as in the other.
    fn of_each(&self, all: i64) -> f64 {
        all as f64 / self.counts.requests.load(Relaxed) as f64
    }
}

/// What this process has taken: microseconds of CPU time, and context switches.
fn taken() -> io::Result<[i64; 2]> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok([micros, usage.voluntary_context_switches() + usage.involuntary_context_switches()])
}

/// Runs server and clients to the end, on a runtime of their own.
fn run(
    name: &'static str,
    settings: &Settings,
    start: fn(Load, Arc<Counts>) -> JoinHandle<io::Result<()>>,
) -> Result<Outcome, Box<dyn Error>> {
    let before = taken()?;
    let counts = Arc::new(Counts::default());
    let bar = ProgressBar::new(settings.seconds * 10);
    bar.set_style(ProgressStyle::with_template("{prefix:12} {wide_bar} {msg}")?);
    bar.set_prefix(name);
    let armed = Runtime::new()?.block_on(async {
        let load = Load {
            connections: settings.connections,
            until: Instant::now() + Duration::from_secs(settings.seconds),
            think: Duration::from_millis(settings.think),
        };
        let mut running = start(load, counts.clone());
        loop {
            tokio::select! {
                ended = &mut running => break ended??,
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    bar.inc(1);
                    bar.set_message(format!("{} requests", HumanCount(counts.requests.load(Relaxed))));
                }
            }
        }
        Ok::<_, Box<dyn Error>>(timingwheel::time::wheel().stats().armed)
    })?;
    bar.finish_and_clear();
    let after = taken()?;
    Ok(Outcome { counts, armed, micros: after[0] - before[0], switches: after[1] - before[1] })
}

/// An RPC server with thousands of connections and their clients, on a timing wheel and on tokio's timers: how late
/// the timers fire, and what they cost.
#[derive(Clone, Parser)]
#[command(name = "rpc_server")]
struct Settings {
    /// How many connections there are at a time, from 1 to 25,000
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = whole(1..=25_000))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    connections: u64,

    /// How many seconds a run takes, from 1 to 3,600
    #[arg(long, value_name = "NUMBER", default_value = "10", value_parser = whole(1..=3_600))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: u64,

    /// How many milliseconds a client waits before a request, on average, from 1 to 1,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(1..=1_000))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    think: u64,

    /// A quick look: fewer connections and seconds, unless they are given
    #[arg(long)]
    short: bool,
}

/// Takes whole numbers within `limits`.
fn whole(limits: std::ops::RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number.ok_or_else(|| format!("it must be a whole number from {least} to {most}, got {text}"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    let Settings { connections, seconds, think, .. } = settings;
    // Both ends of a connection are in this process.
    let needed = 2 * connections + 64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    if let Some(files) = maximum.filter(|&files| files < needed) {
        let allowed = files.saturating_sub(64) / 2;
        return Err(format!(
            "the file limit allows {allowed} connections, got {connections}: raise it with `ulimit -n {needed}`"
        )
        .into());
    }
    println!(
        "{} connections for {seconds} s, with a request every {think} ms. A request\n\
         may take {REQUEST_TIMEOUT:?}; {SLOW} % take longer. After {SILENT} % of the answers the client is\n\
         silent for {IDLE_TIMEOUT:?}.\n",
        HumanCount(connections),
    );
    let on_tokio = |load, counts| tokio::spawn(on_tokio::server::run(load, counts));
    run("warming up", &Settings { seconds: 1, ..settings.clone() }, on_tokio)?;
    let wheel =
        run("timing wheel", &settings, |load, counts| tokio::spawn(on_wheel::server::run(load, counts)))?;
    let tokio = run("tokio::time", &settings, on_tokio)?;
    print(&wheel, &tokio);
    check(&wheel);
    check(&tokio);
    assert!(wheel.armed > wheel.counts.requests.load(Relaxed), "no timer reached the wheel");
    Ok(())
}

/// What a row of the table shows of a run.
type Shown<T> = fn(&Outcome) -> T;

fn print(wheel: &Outcome, tokio: &Outcome) {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "timing wheel", "tokio::time", "ratio"]);
    let counted: [(_, Shown<u64>); 7] = [
        ("requests", |run| run.counts.requests.load(Relaxed)),
        ("- done", |run| run.counts.done.load(Relaxed)),
        ("- timed out", |run| run.counts.timed_out.load(Relaxed)),
        ("- timed out: machine too busy", |run| run.counts.held_up.load(Relaxed)),
        ("work that was stopped", |run| run.counts.stopped.load(Relaxed)),
        ("connections closed as idle", |run| run.counts.closed_idle.load(Relaxed)),
        ("timers armed in the wheel", |run| run.armed),
    ];
    for (name, count) in counted {
        let show = |run| HumanCount(count(run)).to_string();
        table.add_row([name.into(), show(wheel), show(tokio), String::new()]);
    }
    let measured: [(_, _, Shown<f64>); 5] = [
        ("late: half within", " ms", |run| run.within(0.5)),
        ("late: 99 % within", " ms", |run| run.within(0.99)),
        ("late: all within", " ms", |run| run.within(1.0)),
        ("CPU time of a request", " µs", |run| run.of_each(run.micros)),
        ("context switches of a request", "", |run| run.of_each(run.switches)),
    ];
    for (name, unit, measure) in measured {
        let (wheel, tokio) = (measure(wheel), measure(tokio));
        let show = |figure| format!("{figure:.2}{unit}");
        table.add_row([name.into(), show(wheel), show(tokio), format!("{:.2}", wheel / tokio)]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!(
        "{table}\n\nRows with a dash add up to the row above them. ratio: wheel / tokio.\n\n\
         What it means: half of the wheel's timers were within {:.2} ms, tokio's {:.2} ms.\n\
         Each request that timed out stopped its work. Timers are a small part of the\n\
         CPU time of such a server. Where other programs run, the ratios vary: repeat it.",
        wheel.within(0.5),
        tokio.within(0.5)
    );
}

/// Fails if the counts of a run do not add up.
fn check(run: &Outcome) {
    let of = |count: &AtomicU64| count.load(Relaxed);
    let Counts { requests, done, timed_out, held_up, finished, stopped, silent, closed_idle, early, .. } =
        &*run.counts;
    assert_eq!(of(requests), of(done) + of(timed_out) + of(held_up), "a request was not answered");
    assert_eq!(of(finished), of(done), "work was done that its client was told is not");
    assert_eq!(of(stopped), of(timed_out) + of(held_up), "work went on after its request had timed out");
    assert!(of(silent) <= of(closed_idle), "a silent client was not noticed");
    assert_eq!(of(early), 0, "a timer was early");
}
