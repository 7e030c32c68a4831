//! How do I close connections whose peers are silent, or take nothing of what they are sent?
//!
//! `cargo run --release --example idle_connections`, or with `-- --help` for the settings and `-- --short` for a quick
//! look.
//!
//! An echo server and its clients run in this process. The server guards each connection with an `IdleGuard`. Of every
//! four clients two are good, of which one is slow but never silent for as long as the limit; one falls silent after a
//! while; and one sends on but reads nothing of the echo. Both ends keep books. If those do not agree (a bad client was
//! missed, a good one cut off, one closed too early, a byte lost, more than one timer for a connection) the program
//! says so and exits with 1.
//!
//! With `-- --tolerance 12.5` connections may be closed late, by 12.5 % of the limit. A second table then shows what
//! that saves where very many connections are idle: how many times the wheel is turned, and CPU time, beside exact
//! timers that are measured in the same run.

mod client;
mod cost;
mod report;
mod server;

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timingwheel::{TimingWheel, Tolerance};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use client::{Client, KINDS, Kind, live};
use cost::compare;
use report::report;
use server::serve;

const BACKLOG: u32 = 1024;

/// An echo server that closes idle connections.
#[derive(Parser)]
#[command(name = "idle_connections")]
struct Settings {
    /// How many clients there are: a quarter each good, slow, silent and deaf
    #[arg(long, value_name = "NUMBER", default_value = "400", value_parser = number(4..=9_000))]
    #[arg(allow_negative_numbers = true)]
    clients: u64,

    /// For how many milliseconds a read or a write may wait; the run takes about eight times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = number(100..=60_000))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    limit: u64,

    /// By how many percent of the limit a connection may be closed late; also shows what that saves
    #[arg(long, value_name = "PERCENT", value_parser = tolerance, allow_negative_numbers = true)]
    tolerance: Option<Tolerance>,

    /// A quick look: shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

/// With less than a 15th timers that may be late would move through the wheel as others do.
fn tolerance(text: &str) -> Result<Tolerance, String> {
    let percent = text.parse().ok().filter(|percent| (7.0..=100.0).contains(percent));
    let percent: f64 = percent.ok_or("it takes a number from 7 to 100")?;
    Tolerance::try_share(percent / 100.0).map_err(|error| error.to_string())
}

/// Sees to it that the process may open two files for each client.
fn raise_file_limit(clients: u64) -> Result<(), String> {
    const RESERVE: u64 = 64;
    let needed = 2 * clients + RESERVE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|files| files < needed) {
        // Where the system refuses, the old limit is still in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => Err(format!(
            "{clients} clients take {needed} files, two each and {RESERVE} in reserve, and the limit is {files}: ask \
             for at most {} clients, or raise it with `ulimit -n`",
            files.saturating_sub(RESERVE) / 2
        )),
        _ => Ok(()),
    }
}

/// With buffers so small that it is soon seen when nobody reads.
fn new_socket() -> io::Result<TcpSocket> {
    const BUFFER: u32 = 16 * 1024;
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.set_recv_buffer_size(BUFFER)?;
    Ok(socket)
}

/// Lets server and clients run, and returns what does not add up.
async fn run(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { clients, limit, tolerance, short: _ } = settings;
    raise_file_limit(clients)?;
    let limit = Duration::from_millis(limit);
    let length = 6 * limit;
    println!("{clients} clients. A read or a write of the server waits for {limit:?} at the most.\n");

    let wheel = TimingWheel::new();
    let socket = new_socket()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let server = listener.local_addr()?;
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} idle connections closed")?;
    let bar = ProgressBar::new(clients / 4 + (clients + 1) / 4).with_style(style);
    let connections = tokio::spawn(serve(listener, clients, wheel.clone(), limit, tolerance, bar.clone()));

    let start = Instant::now();
    let mut lives = JoinSet::new();
    for kind in KINDS.into_iter().cycle().take(usize::try_from(clients)?) {
        let end = start + if kind == Kind::Silent { length.mul_f64(fastrand::f64()) } else { length };
        lives.spawn(live(new_socket()?.connect(server).await?, kind, limit, end));
    }
    let clients = timeout(2 * length, lives.join_all()).await;
    let clients = clients.map_err(|_elapsed| "some clients wait in vain for the server to close")?;
    let clients: Vec<Client> = clients.into_iter().collect::<io::Result<_>>()?;
    let connections = timeout(2 * length, connections).await???;
    bar.finish_and_clear();
    let mut problems = report(&clients, &connections, limit, wheel.stats())?;
    if let Some(tolerance) = tolerance {
        problems.extend(compare(limit, tolerance).await?);
    }
    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
