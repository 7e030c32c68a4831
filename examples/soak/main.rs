//! Does a wheel keep its promises for an hour at full speed, on a machine that stalls?
//!
//! `cargo run --release -p timingwheel-examples --example soak -- --minutes 60`, or without it for one minute. `-- --help`
//! lists the settings, and `-- --short` is a quick look.
//!
//! A program can check its own wheel at any time by the functions below. Here they run again and again, while tasks use one
//! wheel in every way: sleeps, timeouts, moved deadlines, timers that are dropped on other workers, intervals, guarded
//! connections and streams. Now and then come fifty thousand timers at once, and wheels that are made and dropped. Meanwhile
//! workers stall at random, sometimes all together. If a timer is early, or the process takes more memory than when it was
//! warm, the program says so and exits with 1.

mod checks;
mod load;

use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Parser;
use fastrand::Rng;
use indicatif::{HumanCount, HumanDuration, HumanFloatCount, ProgressBar, ProgressStyle};
use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::{Ledger, verdict, watch, whole, within};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::checks::{Checks, Memory};
use crate::load::{Books, User, kinds, stall};

/// Whether each timer is accounted for. Each shard is counted under its lock, so this holds at full speed too.
fn is_accounted_for(Stats { armed, fired, cancelled, pending, .. }: &Stats) -> bool {
    *armed == fired + cancelled + *pending as u64
}

/// Whether timers go on firing: one of a millisecond does so within a time that is long for a stalled machine too.
async fn goes_on_firing(wheel: &TimingWheel, within: Duration) -> bool {
    // On tokio's timers, which tell of a wheel that stands still.
    timeout(within, wheel.sleep(Duration::from_millis(1))).await.is_ok()
}

// The settings, their limits, and the errors beyond these.

/// A day.
const MAX_MINUTES: f64 = 24.0 * 60.0;
const MIN_MINUTES: f64 = 0.02;
/// How many times it is checked in a run, unless that would be seldom.
const CHECKS: u32 = 20;
const BETWEEN_CHECKS: Duration = Duration::from_secs(30);

/// One wheel, used in every way and at full speed while workers stall: does it keep what it promises?
#[derive(Clone, Debug, Parser)]
#[command(name = "soak")]
struct Settings {
    /// How many minutes it runs, from 0.02 to 1,440
    #[arg(long, value_name = "MINUTES", default_value = "1", value_parser = within(MIN_MINUTES..=MAX_MINUTES, "a number"))]
    #[arg(default_value_if("short", "true", "0.05"), allow_negative_numbers = true)]
    minutes: f64,

    /// How many tasks use the wheel, from 10 to 1,000,000
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole(10..=1_000_000_u64))]
    #[arg(allow_negative_numbers = true)]
    tasks: u64,

    /// How many workers the runtime has, from 1 to 1,024, if not one for each processor and two at least
    #[arg(long, value_name = "NUMBER", default_value_t = workers(), value_parser = whole(1..=1_024_usize))]
    #[arg(allow_negative_numbers = true)]
    workers: usize,

    /// The seed of the random numbers, from 0 to 4,294,967,296
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole(0..=1_u64 << 32))]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// A quick look of three seconds, unless it is told how long
    #[arg(long)]
    short: bool,
}

fn workers() -> usize {
    available_parallelism().map_or(2, |processors| processors.get().max(2))
}

impl Settings {
    fn length(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    fn between_checks(&self) -> Duration {
        BETWEEN_CHECKS.min(self.length() / CHECKS)
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minutes: _, tasks, workers, seed, short: _ } = self;
        write!(
            f,
            "{} tasks on {workers} workers for {}, from seed {seed}",
            HumanCount(*tasks),
            HumanDuration(self.length())
        )
    }
}

// Runs the tasks on a wheel, and checks the wheel meanwhile.

/// How long the tasks may take for what they are at when the time is up: none waits for a timer for so long.
const LAST_TIMERS_WITHIN: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    watch();
    let problems = soak(Settings::parse()).unwrap_or_else(|words| vec![words]);
    verdict(&problems)
}

/// Runs it, and returns what does not hold.
fn soak(settings: Settings) -> Result<Vec<String>, String> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(settings.workers)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    println!("{settings}\n");
    let books = Arc::new(Books::default());
    let result = runtime.block_on(run(&settings, &books));
    // Workers that stall are not waited for.
    runtime.shutdown_background();
    let checks = result?;
    Ok(print(&settings, &books, checks))
}

/// Runs all tasks to the end, and checks meanwhile. The checks keep broken promises; an error ends the run.
async fn run(settings: &Settings, books: &Arc<Books>) -> Result<Checks, String> {
    let wheel = TimingWheel::builder().build().map_err(|error| format!("no wheel: {error}"))?;
    let start = Instant::now();
    let end = start + settings.length();
    let mut users = JoinSet::new();
    for (number, kind) in (0..settings.tasks).zip(kinds(settings.workers)) {
        let random = Rng::with_seed(settings.seed + number);
        let user = User { wheel: wheel.clone(), books: books.clone(), random, end };
        users.spawn(user.live(kind));
    }
    users.spawn(stall(settings.workers, books.clone(), settings.seed, end));

    let mut progress = Progress::start(settings);
    let mut checks = Checks::new(settings);
    while Instant::now() < end {
        sleep_until(end.min(Instant::now() + settings.between_checks())).await;
        checks.check(start.elapsed(), &wheel, books).await;
        progress.show(start.elapsed(), &checks, books);
    }
    progress.finish();

    let joined = timeout(LAST_TIMERS_WITHIN, async {
        while let Some(user) = users.join_next().await {
            user.map_err(|error| format!("a task failed: {error}"))?;
        }
        Ok::<(), String>(())
    });
    match joined.await {
        Ok(result) => result?,
        Err(_elapsed) => return Err(format!("{} tasks wait in vain for their timers", users.len())),
    }
    checks.check_at_rest(&wheel, books);
    Ok(checks)
}

/// A bar on a terminal, and a line now and then elsewhere.
enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    fn start(settings: &Settings) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let style = ProgressStyle::with_template("{wide_bar} {msg}").expect("a correct template");
        Self::Bar(ProgressBar::new(settings.length().as_secs()).with_style(style))
    }

    fn show(&mut self, elapsed: Duration, checks: &Checks, books: &Books) {
        let resident = checks.memory.now.map(|bytes| format!(", {}", mib(bytes))).unwrap_or_default();
        let state = format!(
            "{} timers, {} early{resident}",
            HumanCount(checks.last.armed),
            HumanCount(books.lateness.early.get())
        );
        match self {
            Self::Bar(bar) => {
                bar.set_message(state);
                bar.set_position(elapsed.as_secs());
            }
            Self::Lines => eprintln!("{}: {state}", HumanDuration(elapsed)),
        }
    }

    fn finish(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

// The closing table.

/// Bytes, for people.
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Prints the closing table, and returns what does not hold.
fn print(settings: &Settings, books: &Books, checks: Checks) -> Vec<String> {
    let stats = &checks.last;
    let Memory { warm, most, now } = checks.memory;
    let in_a_second = stats.armed as f64 / settings.length().as_secs_f64();
    let mut ledger = Ledger::new("count");
    for (what, number) in books.counts() {
        ledger.total(what, number);
    }
    ledger
        .total("timers armed by all these", stats.armed)
        .part("fired", stats.fired)
        .part("cancelled", stats.cancelled)
        .part_expected("pending at the end", stats.pending as u64, 0)
        .text("timers armed in a second", &HumanFloatCount(in_a_second.round()).to_string())
        .expect("timers that were early", books.lateness.early.get(), 0)
        .total("most timers pending at a check", checks.most_pending as u64)
        .total("moves of a timer to a finer level", stats.cascaded)
        .total("turns of the wheel", stats.turns)
        .total("checks", checks.number)
        .lateness("timers late", |share| books.lateness.quantile(share));
    for (what, bytes) in
        [("most memory until warm", warm), ("most memory after that", most), ("memory at the end", now)]
    {
        ledger.text(what, &bytes.map_or_else(|| "-".to_owned(), mib));
    }
    let mut problems = ledger.print(
        "What it means: at full speed no timer was early, and each one fired or was\n\
         cancelled.",
    );
    problems.extend(checks.problems);
    problems
}
