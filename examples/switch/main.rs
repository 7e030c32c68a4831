//! What changes if a server's `use tokio::time` becomes `use timingwheel::time`?
//!
//! `cargo run --release -p timingwheel-examples --example switch`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! This is all that changes:
//!
//! ```diff
//! - use tokio::time;
//! + use timingwheel::time;
//! ```
//!
//! `server.rs` is compiled twice: in `on_tokio.rs` and in `on_wheel.rs`, which differ in that line. Each serves the same
//! clients over TCP on loopback, in a runtime of its own. The server bounds each request with a timeout, moves a sleep
//! with each request to notice silent peers, and ticks. It has to do the same on both, and as its clients
//! asked, and no timer may be early. Otherwise the program says so and exits with 1.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod books;
mod on_tokio;
mod on_wheel;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::Stats;
use timingwheel_examples::{cpu_time, in_words, unless_too_busy, verdict, watch, whole};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::books::{ANSWER, Books, GIVEN_UP, LONG, SHORT};

// Runs the server on tokio's timers, then on the wheel's.

/// The same server on `tokio::time` and on `timingwheel::time`.
#[derive(Clone, Copy, Parser)]
#[command(name = "switch")]
struct Settings {
    /// How many clients there are at a time, from 1 to 400
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = whole(1..=400_u64))]
    #[arg(default_value_if("short", "true", "50"), allow_negative_numbers = true)]
    clients: u64,

    /// How many requests each makes, from 1 to 100,000; every tenth takes too long
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = whole(1..=100_000_u64))]
    #[arg(default_value_if("short", "true", "40"), allow_negative_numbers = true)]
    requests: u64,

    /// After how many milliseconds of silence the server closes a connection, from 100 to 60,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(100..=60_000_u64))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    idle: u64,

    /// How often each of both runs, in turns, from 1 to 100
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = whole(1..=100_u64))]
    #[arg(default_value_if("short", "true", "1"), allow_negative_numbers = true)]
    rounds: u64,

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
struct Outcome {
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
        let clients = send_all(listener.local_addr()?, settings, bar.clone());
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
    Ok(print(settings, &tokios, &wheels))
}

fn main() -> ExitCode {
    watch();
    let problems = run_both(Settings::parse()).unwrap_or_else(|error| vec![error.to_string()]);
    verdict(&problems)
}

// The clients. They have no timers, so all timers are the server's.

/// Of how many requests one is long.
const LONG_ONE_IN: u64 = 10;

/// Runs all clients to the end.
async fn send_all(server: SocketAddr, settings: Settings, bar: ProgressBar) -> Result<(), Box<dyn Error>> {
    let mut clients = JoinSet::new();
    for _ in 0..settings.clients {
        clients.spawn(send_one(server, settings.requests));
    }
    while let Some(client) = clients.join_next().await {
        client??;
        bar.inc(1);
    }
    Ok(())
}

/// Asks again and again, then is silent and waits for the server to close the connection.
async fn send_one(server: SocketAddr, requests: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    for number in 1..=requests {
        let (request, expected) = if number % LONG_ONE_IN == 0 { (LONG, GIVEN_UP) } else { (SHORT, ANSWER) };
        stream.write_u8(request).await?;
        let reply = stream.read_u8().await?;
        if reply != expected {
            let text = format!("request {number} got the reply {:?}", char::from(reply));
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    match stream.read_u8().await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to nothing")),
        Err(_) => Ok(()),
    }
}

// The closing table, and the check of the counts.

/// Prints the table, and returns the problems.
fn print(settings: Settings, tokios: &Outcome, wheels: &Outcome) -> Vec<String> {
    let Settings { clients, requests, rounds, .. } = settings;
    let connections = clients * rounds;
    let long = requests / LONG_ONE_IN;
    let mut problems = Vec::new();
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "on tokio::time", "on the wheel", "expected"]);
    let both = [tokios, wheels];
    for (name, counts, expected) in [
        (
            "requests",
            both.map(|of| of.books.answered.get() + of.books.given_up.get()),
            connections * requests,
        ),
        ("- answered", both.map(|of| of.books.answered.get()), connections * (requests - long)),
        ("- given up at their limit", both.map(|of| of.books.given_up.get()), connections * long),
        ("connections, all closed as idle", both.map(|of| of.books.idle.get()), connections),
        ("timers that fired early", both.map(|of| of.books.early.get()), 0),
    ] {
        let [tokios, wheels] = counts.map(|count| HumanCount(count).to_string());
        table.add_row([name.to_owned(), tokios, wheels, HumanCount(expected).to_string()]);
        for (time, count) in ["tokio::time", "timingwheel::time"].into_iter().zip(counts) {
            if count != expected {
                let problem = format!("{name}, on {time}: {count}, and not {expected}");
                if expected == 0 {
                    problems.push(problem);
                } else {
                    unless_too_busy(problem);
                }
            }
        }
    }
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let mut row = |name: &str, [tokios, wheels]: [String; 2]| {
        table.add_row([name.to_owned(), tokios, wheels]);
    };
    row("ticks taken", both.map(|of| HumanCount(of.books.ticks.get()).to_string()));
    for (name, quantile) in
        [("late: half within", 0.5), ("late: 99 % within", 0.99), ("late: all within", 1.0)]
    {
        row(name, both.map(|of| millis(of.books.lateness(quantile))));
    }
    row("CPU time of server and clients", both.map(|of| format!("{:.2} s", of.cpu.as_secs_f64())));
    row("timers armed in the wheel", ["-".into(), HumanCount(wheels.stats.armed).to_string()]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n\nRows with a dash add up to the row above them.");
    if problems.is_empty() {
        let [of_tokio, of_wheel] = both.map(|of| of.cpu.as_secs_f64());
        println!(
            "What it means: with another `use` the same server did the same. CPU time:\n{} \
             with tokio::time.",
            in_words(of_wheel, of_tokio)
        );
    }

    // Each request has at least one timer that fires, and each connection one more.
    let least = connections * (requests + 1);
    if wheels.stats.fired < least {
        unless_too_busy(format!("only {} timers fired in the wheel, and not {least}", wheels.stats.fired));
    }
    problems
}
