//! Runs the server on tokio's timers, then on the wheel's.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use timingwheel::Stats;
use tokio::net::TcpListener;

use crate::books::Books;
use crate::limits::whole;
use crate::{load, on_tokio, on_wheel, report};

/// The same server on `tokio::time` and on `timingwheel::time`.
#[derive(Clone, Copy, Parser)]
#[command(name = "switch")]
pub(crate) struct Settings {
    /// How many clients there are at a time, from 1 to 400
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = whole(1..=400_u64))]
    #[arg(default_value_if("short", "true", "50"), allow_negative_numbers = true)]
    pub(crate) clients: u64,

    /// How many requests each makes, from 1 to 100,000; every tenth takes too long
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = whole(1..=100_000_u64))]
    #[arg(default_value_if("short", "true", "40"), allow_negative_numbers = true)]
    pub(crate) requests: u64,

    /// After how many milliseconds of silence the server closes a connection, from 100 to 60,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(100..=60_000_u64))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    pub(crate) idle: u64,

    /// How often each of both runs, in turns, from 1 to 100
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = whole(1..=100_u64))]
    #[arg(default_value_if("short", "true", "1"), allow_negative_numbers = true)]
    pub(crate) rounds: u64,

    /// A quick look: fewer clients and requests, unless they are given
    #[arg(long)]
    short: bool,
}

/// Whose timers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Tokio,
    Wheel,
}

/// The counts of one of both, all rounds together.
pub(crate) struct Outcome {
    pub(crate) books: Arc<Books>,
    pub(crate) cpu: Duration,
    /// Of the wheels, in rounds on them.
    pub(crate) stats: Stats,
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
            // The server's task of ticks, which has been told to end, drops its timer.
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

/// A short run that does not count. The first run of a process pays for memory that the system gives out for the first
/// time, whatever its timers.
fn warm_up(settings: Settings) -> Result<(), Box<dyn Error>> {
    let settings = Settings { requests: settings.requests.min(10), ..settings };
    run(Time::Tokio, settings, &mut Outcome::new(), &ProgressBar::hidden())
}

fn run_both(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { clients, requests, rounds, .. } = settings;
    println!("{clients} clients make {} requests each; every tenth takes too long.", HumanCount(requests));
    println!("Then they are silent. Runs on each kind of timers: {rounds}\n");
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} connections closed as idle")?;
    let bar = ProgressBar::new(2 * rounds * clients).with_style(style);
    // Shown from the beginning, as the first is closed late.
    bar.tick();
    warm_up(settings)?;
    let (mut tokios, mut wheels) = (Outcome::new(), Outcome::new());
    for round in 0..rounds {
        // The order of the two changes from round to round.
        let order = if round % 2 == 0 { [Time::Tokio, Time::Wheel] } else { [Time::Wheel, Time::Tokio] };
        for time in order {
            let outcome = if time == Time::Tokio { &mut tokios } else { &mut wheels };
            run(time, settings, outcome, &bar)?;
        }
    }
    bar.finish_and_clear();
    Ok(report::print(settings, &tokios, &wheels))
}

pub(crate) fn main() -> ExitCode {
    crate::machine::watch();
    let problems = run_both(Settings::parse()).unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
}
