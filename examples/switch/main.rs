//! What changes if a server's `use tokio::time` becomes `use timingwheel::time`?
//!
//! `cargo run --release --example switch`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! `server.rs` is compiled twice: in `on_tokio.rs` and in `on_wheel.rs`, which differ in one `use`. Each serves the
//! same clients over TCP on loopback, in a runtime of its own. The server bounds each request with a timeout, moves a
//! sleep with each request to notice silent peers, and ticks. What it did has to be the same on both and what its
//! clients asked for, and no timer may be early; otherwise the program says so and exits with 1.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod books;
mod load;
mod on_tokio;
mod on_wheel;
mod report;

use std::error::Error;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use books::Books;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use timingwheel::Stats;
use tokio::net::TcpListener;

/// The same server on `tokio::time` and on `timingwheel::time`.
#[derive(Clone, Copy, Parser)]
#[command(name = "switch")]
pub(crate) struct Settings {
    /// How many clients there are at a time
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = number(1..=400))]
    #[arg(default_value_if("short", "true", "50"), allow_negative_numbers = true)]
    clients: u64,

    /// How many requests each makes; every tenth takes too long
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = number(1..=100_000))]
    #[arg(default_value_if("short", "true", "40"), allow_negative_numbers = true)]
    requests: u64,

    /// After how many milliseconds of silence the server closes a connection
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = number(100..=60_000))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    idle: u64,

    /// How often each of both runs, in turns
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = number(1..=100))]
    #[arg(default_value_if("short", "true", "1"), allow_negative_numbers = true)]
    rounds: u64,

    /// A quick look: fewer clients and requests, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

/// Whose timers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Tokio,
    Wheel,
}

/// What one of both has come to, all rounds together.
pub(crate) struct Outcome {
    books: Arc<Books>,
    cpu: Duration,
    /// Of the wheels, in rounds on them.
    stats: Stats,
}

impl Outcome {
    fn new() -> Self {
        Self { books: Arc::new(Books::new()), cpu: Duration::ZERO, stats: Stats::default() }
    }
}

fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))?)
}

/// Lets the server run once, on a runtime of its own.
fn run(
    time: Time,
    settings: Settings,
    outcome: &mut Outcome,
    bar: &ProgressBar,
) -> Result<(), Box<dyn Error>> {
    let before = cpu_time()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let clients = load::run(listener.local_addr()?, settings, bar.clone());
        let (books, idle) = (outcome.books.clone(), Duration::from_millis(settings.idle));
        let server = match time {
            Time::Tokio => tokio::spawn(on_tokio::server::serve(listener, settings.clients, idle, books)),
            Time::Wheel => tokio::spawn(on_wheel::server::serve(listener, settings.clients, idle, books)),
        };
        clients.await?;
        server.await??;
        if time == Time::Wheel {
            // What the server's task of ticks holds goes with that task, which has been told to end.
            tokio::task::yield_now().await;
            let Stats { armed, fired, .. } = timingwheel::time::wheel().stats();
            outcome.stats.armed += armed;
            outcome.stats.fired += fired;
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    drop(runtime);
    outcome.cpu += cpu_time()? - before;
    Ok(())
}

fn run_both(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { clients, requests, rounds, .. } = settings;
    println!(
        "{clients} clients make {requests} requests each; every tenth takes too long. Then they are silent.\n"
    );
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} connections closed as idle")?;
    let bar = ProgressBar::new(2 * rounds * clients).with_style(style);
    let (mut tokios, mut wheels) = (Outcome::new(), Outcome::new());
    for round in 0..rounds {
        // Who is first changes from round to round.
        let order = if round % 2 == 0 { [Time::Tokio, Time::Wheel] } else { [Time::Wheel, Time::Tokio] };
        for time in order {
            let outcome = if time == Time::Tokio { &mut tokios } else { &mut wheels };
            run(time, settings, outcome, &bar)?;
        }
    }
    bar.finish_and_clear();
    Ok(report::print(settings, &tokios, &wheels))
}

fn main() -> ExitCode {
    let problems = run_both(Settings::parse()).unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
