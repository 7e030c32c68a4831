//! Runs server and clients.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{TimingWheel, Tolerance};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::client::{Client, KINDS, Kind, live};
use crate::cost::compare;
use crate::files::raise_limit_for;
use crate::limits::{whole, within};
use crate::report::report;
use crate::server::serve;

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
    tolerance: Option<Tolerance>,

    /// A quick look: shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// A guard's timer waits for half of the limit at a time: with less than a 14th of the limit it would move through the wheel
/// as others do.
fn tolerance(text: &str) -> Result<Tolerance, String> {
    let percent = within(7.2..=100.0, "a number")(text)?;
    Ok(Tolerance::share(percent / 100.0))
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

pub(crate) async fn main() -> ExitCode {
    crate::machine::watch();
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
}
