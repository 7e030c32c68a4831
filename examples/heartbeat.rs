//! How do I notice dead peers among many connections?
//!
//! `cargo run --release --example heartbeat`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! A TCP server and its peers run in this process. For each connection the server has one `Sleep`, which it moves
//! with every heartbeat: if that comes to its end, the peer is dead. Every other peer falls silent at a random time
//! without closing anything, as if a cable had been cut. Both ends keep books. If those do not agree (a dead peer
//! was missed, a live one cut off, one closed too early, a timer left) the program says so and exits with 1.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timingwheel::{Stats, TimingWheel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// A server that notices which of its peers are dead.
#[derive(Parser)]
#[command(name = "heartbeat")]
struct Settings {
    /// How many peers there are; half of them fall silent
    #[arg(long, value_name = "NUMBER", default_value = "400", value_parser = number(2..=10_000))]
    #[arg(allow_negative_numbers = true)]
    peers: u64,

    /// After how many milliseconds without a heartbeat a peer is dead; the run takes about seven times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = number(100..=60_000))]
    #[arg(default_value_if("short", "true", "400"), allow_negative_numbers = true)]
    patience: u64,

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

/// What the server saw of a connection.
struct Connection {
    peer: SocketAddr,
    beats: usize,
    /// If the peer was found dead: how long after the deadline.
    dead: Option<Duration>,
}

/// Serves a connection until the peer closes it or is dead.
async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    wheel: TimingWheel,
    patience: Duration,
) -> Connection {
    let mut beats = 0;
    let mut buffer = [0; 64];
    let mut silence = pin!(wheel.sleep(patience));
    loop {
        let read = tokio::select! {
            biased; // A heartbeat that has come counts, even if it is read late.
            read = stream.read(&mut buffer) => read,
            () = &mut silence => {
                return Connection { peer, beats, dead: Some(silence.deadline().elapsed()) };
            }
        };
        match read {
            Ok(read @ 1..) => {
                beats += read;
                silence.as_mut().reset(Instant::now() + patience);
            }
            Ok(0) | Err(_) => return Connection { peer, beats, dead: None },
        }
    }
}

/// Accepts so many `peers`, and waits until their connections have ended.
async fn accept(
    listener: TcpListener,
    peers: u64,
    wheel: TimingWheel,
    patience: Duration,
    dead: ProgressBar,
) -> io::Result<HashMap<SocketAddr, Connection>> {
    let mut connections = JoinSet::new();
    for _ in 0..peers {
        let (stream, peer) = listener.accept().await?;
        connections.spawn(serve(stream, peer, wheel.clone(), patience));
    }
    let mut ended = HashMap::new();
    while let Some(connection) = connections.join_next().await.transpose()? {
        dead.inc(connection.dead.is_some().into());
        ended.insert(connection.peer, connection);
    }
    Ok(ended)
}

/// What a peer knows of itself.
struct Peer {
    address: SocketAddr,
    falls_silent: bool,
    beats: usize,
    longest_gap: Duration,
    /// If it fell silent: how long after its last heartbeat the server closed the connection.
    closed: Duration,
}

/// Sends heartbeats until `end`. Then the peer leaves, or it falls silent and waits for the server to notice.
async fn live(
    mut stream: TcpStream,
    connected: Instant,
    every: Duration,
    end: Instant,
    falls_silent: bool,
) -> io::Result<Peer> {
    let address = stream.local_addr()?;
    let mut peer =
        Peer { address, falls_silent, beats: 0, longest_gap: Duration::ZERO, closed: Duration::ZERO };
    let mut last_beat = connected;
    // Not all at the same time.
    sleep(every.mul_f64(fastrand::f64())).await;
    while peer.beats == 0 || Instant::now() < end {
        let now = Instant::now();
        let is_sent = stream.write_all(b"!").await.is_ok();
        peer.longest_gap = peer.longest_gap.max(last_beat.elapsed());
        if !is_sent {
            break;
        }
        last_beat = now;
        peer.beats += 1;
        sleep(every).await;
    }
    if falls_silent {
        // Whether this is the end of the stream or an error, the server has closed it.
        let _ = stream.read(&mut [0]).await;
        peer.closed = last_beat.elapsed();
    }
    Ok(peer)
}

/// Sees to it that the process may open two files for each peer.
fn raise_file_limit(peers: u64) -> Result<(), String> {
    const RESERVE: u64 = 64;
    let needed = 2 * peers + RESERVE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|files| files < needed) {
        // Where the system refuses, the old limit is still in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => Err(format!(
            "{peers} peers take {needed} files, two each and {RESERVE} in reserve, and the limit is {files}: ask for \
             at most {} peers, or raise it with `ulimit -n`",
            files.saturating_sub(RESERVE) / 2
        )),
        _ => Ok(()),
    }
}

/// Lets server and peers run, and returns what does not add up.
async fn run(Settings { peers, patience, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    raise_file_limit(peers)?;
    let patience = Duration::from_millis(patience);
    let (every, length) = (patience / 5, 6 * patience);
    println!(
        "{peers} peers send a heartbeat every {every:?}. After {patience:?} without one they are dead.\n"
    );

    let wheel = TimingWheel::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let server = listener.local_addr()?;
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} silent peers found dead")?;
    let bar = ProgressBar::new(peers / 2).with_style(style);
    let connections = tokio::spawn(accept(listener, peers, wheel.clone(), patience, bar.clone()));

    let start = Instant::now();
    let mut lives = JoinSet::new();
    for number in 0..peers {
        let falls_silent = number % 2 == 1;
        let end = start + if falls_silent { length.mul_f64(fastrand::f64()) } else { length };
        let now = Instant::now();
        lives.spawn(live(TcpStream::connect(server).await?, now, every, end, falls_silent));
    }
    let peers = timeout(2 * length, lives.join_all()).await;
    let peers = peers.map_err(|_elapsed| "some silent peers wait in vain for the server to notice")?;
    let peers: Vec<Peer> = peers.into_iter().collect::<io::Result<_>>()?;
    let connections = connections.await??;
    bar.finish_and_clear();
    report(&peers, &connections, patience, wheel.stats())
}

/// Compares the books of both ends, prints the closing table, and returns what does not add up.
fn report(
    peers: &[Peer],
    connections: &HashMap<SocketAddr, Connection>,
    patience: Duration,
    stats: Stats,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut lateness = Histogram::<u64>::new(3)?;
    let (mut held_up, mut silent, mut too_early, mut cut_off, mut sent, mut received) = (0, 0, 0, 0, 0, 0);
    for peer in peers {
        let connection = connections.get(&peer.address).ok_or("a peer is not in the server's books")?;
        if peer.longest_gap >= patience {
            // The machine kept it from its heartbeats, so the server was right to take it for dead.
            held_up += 1;
            continue;
        }
        match connection.dead {
            Some(late) if peer.falls_silent => lateness.record(u64::try_from(late.as_nanos())?)?,
            dead => cut_off += u64::from(dead.is_some()),
        }
        silent += u64::from(peer.falls_silent);
        too_early += u64::from(peer.falls_silent && peer.closed < patience);
        sent += peer.beats as u64;
        received += connection.beats as u64;
    }
    let total = peers.len() as u64;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "seen", "expected"]);
    let mut problems = Vec::new();
    for (name, count, expected) in [
        ("peers", total, None),
        ("- held up by the machine", held_up, None),
        ("- that fell silent", silent, None),
        ("- found dead", lateness.len(), Some(silent.max(1))),
        ("- closed too early", too_early, Some(0)),
        ("- cut off by mistake", cut_off, Some(0)),
        ("heartbeats sent", sent, None),
        ("- received", received, Some(sent)),
        // A heartbeat that comes at the very deadline arms its timer again.
        ("timers that they moved", stats.armed, Some(total.max(stats.armed))),
        ("- pending at the end", stats.pending as u64, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{name}: {count}, and not {expected}"));
        }
    }
    for (name, quantile) in
        [("lateness, half within", 0.5), ("lateness, 99 % within", 0.99), ("lateness, most", 1.0)]
    {
        let late = Duration::from_nanos(lateness.value_at_quantile(quantile));
        table.add_row([name.into(), format!("{:.3} ms", late.as_secs_f64() * 1e3)]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");

    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
