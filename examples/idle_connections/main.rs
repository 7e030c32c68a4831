//! How do I close connections whose peers are silent, or do not read?
//!
//! `cargo run --release -p timingwheel-examples --example idle_connections`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! `echo` is all that a program needs; the rest is a load. The server guards each connection with an `IdleGuard`. Of four
//! clients, one is good, one is slow but never silent for as long as the limit, one falls silent after a while, and one
//! sends on but does not read the echo. Both ends keep books. If these do not agree (a bad client was missed, a good one
//! cut off, one closed too early, a byte lost, or a connection took more than one timer in half a limit) the program says
//! so and exits with 1.
//!
//! With `-- --tolerance 12.5` connections may be closed late, by 12.5 % of the limit. A second table then shows what
//! that saves where very many connections are idle: how many times the wheel is turned, and CPU time, beside exact
//! timers that are measured in the same run.

mod cost;
mod ends;

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::{conclude, raise_limit_for, unless_too_busy, whole, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::cost::compare;
use crate::ends::{Client, Connection, Direction, KINDS, Kind, live, serve};

/// Sends back what comes, until the peer closes the connection or is idle for longer than `limit`: that is an error of
/// the kind `TimedOut`.
async fn echo(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    wheel: &TimingWheel,
    limit: Duration,
    tolerance: Option<Duration>,
) -> io::Result<()> {
    let mut stream = wheel.idle_guard(stream).with_read_limit(limit).with_write_limit(limit);
    if let Some(tolerance) = tolerance {
        stream = stream.with_tolerance(tolerance);
    }
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

// Runs server and clients.

const BACKLOG: u32 = 1024;

/// An echo server that closes idle connections.
#[derive(Parser)]
#[command(name = "idle_connections")]
struct Settings {
    /// How many clients there are, from 4 to 9,000: a quarter each good, slow, silent and deaf
    #[arg(long, value_name = "NUMBER", default_value = "400", value_parser = whole(4..=9_000_u64))]
    #[arg(allow_negative_numbers = true)]
    clients: u64,

    /// How many milliseconds a read or a write may wait, from 100 to 60,000; the run takes about eight times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(100..=60_000_u64))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    limit: u64,

    /// By how many percent of the limit a connection may be closed late, from 7.2 to 100; also shows what that saves
    #[arg(long, value_name = "PERCENT", value_parser = tolerance, allow_negative_numbers = true)]
    tolerance: Option<f64>,

    /// A quick look: shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// A guard's timer waits for half of the limit at a time: with less than a 14th of the limit it would move through the wheel
/// as others do.
fn tolerance(text: &str) -> Result<f64, String> {
    within(7.2..=100.0, "a number")(text)
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
    raise_limit_for(clients, "clients")?;
    let limit = Duration::from_millis(limit);
    let tolerance = tolerance.map(|percent| limit.mul_f64(percent / 100.0));
    let length = 6 * limit;
    println!(
        "{} clients. A read or a write of the server waits for at most {limit:?}.\n",
        HumanCount(clients)
    );

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
    conclude(run(Settings::parse())).await
}

// Compares the books of both ends.

/// For how many limits a connection lives at the most: a run, and a wait after it; and one for a machine that is slow.
const LIFE_IN_LIMITS: u64 = 8;

/// Prints the closing table, and returns what does not add up.
fn report(
    clients: &[Client],
    connections: &HashMap<SocketAddr, Connection>,
    limit: Duration,
    stats: Stats,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["clients", "number", "held up", "closed in", "open", "late: half", "all within"]);
    let mut problems = Vec::new();
    for kind in KINDS {
        let (mut number, mut held_up, mut closed) = (0, 0, 0);
        let mut late = Histogram::<u64>::new(3)?;
        let expected = match kind {
            Kind::Good | Kind::Slow => None,
            Kind::Silent => Some(Direction::Read),
            Kind::Deaf => Some(Direction::Write),
        };
        for client in clients.iter().filter(|client| client.kind == kind) {
            let connection =
                connections.get(&client.address).ok_or("a client is not in the server's books")?;
            number += 1;
            if client.longest_gap >= limit {
                // The machine kept it from talking, so the server was right to take it for idle.
                held_up += 1;
                continue;
            }
            closed += u64::from(connection.closed_in.is_some());
            if connection.closed_in != expected {
                unless_too_busy(format!(
                    "{kind:?} client: closed in {:?}, and not in {expected:?}",
                    connection.closed_in
                ));
            } else if expected.is_some() {
                match connection.waited.checked_sub(limit) {
                    Some(beyond) => late.record(u64::try_from(beyond.as_nanos())?)?,
                    None => problems.push(format!("{kind:?} client: closed after {:?}", connection.waited)),
                }
            }
            if kind != Kind::Deaf && connection.echoed != client.echoed {
                unless_too_busy(format!(
                    "{kind:?} client: {} bytes of echo, and {} came back",
                    connection.echoed, client.echoed
                ));
            }
        }
        let millis = |quantile| match late.len() {
            0 => String::new(),
            _ => format!(
                "{:.2} ms",
                Duration::from_nanos(late.value_at_quantile(quantile)).as_secs_f64() * 1e3
            ),
        };
        table.add_row([
            format!("{kind:?}").to_lowercase(),
            HumanCount(number).to_string(),
            HumanCount(held_up).to_string(),
            match expected {
                Some(direction) => format!("{} a {direction:?}", HumanCount(closed)).to_lowercase(),
                None => HumanCount(closed).to_string(),
            },
            HumanCount(number - held_up - closed).to_string(),
            millis(0.5),
            millis(1.0),
        ]);
    }
    for column in 1..=6 {
        let column = table.column_mut(column).ok_or("the table has fewer columns")?;
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}\n\nEach number is the sum of those held up by the machine, closed and left open.");
    println!(
        "The wheel saw {} timers for {} connections, and {} are left.",
        HumanCount(stats.armed),
        HumanCount(clients.len() as u64),
        HumanCount(stats.pending as u64)
    );
    if problems.is_empty() {
        println!(
            "What it means: silent clients were closed in a read, deaf ones in a write, and\n\
             good ones not at all. A guard arms few timers, however often it is read."
        );
    }
    if stats.pending > 0 {
        problems.push(format!("{} timers are left", stats.pending));
    }
    // A timer that comes due with nothing overdue is armed again, once for each half of the limit at the most.
    if stats.armed > clients.len() as u64 * 2 * LIFE_IN_LIMITS {
        unless_too_busy(format!("{} timers for {} connections", stats.armed, clients.len()));
    }
    Ok(problems)
}
