//! How do I notice dead peers among many connections?
//!
//! `cargo run --release -p timingwheel-examples --example heartbeat`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! For each connection the server has one `Sleep`, which it moves with every heartbeat. If the sleep ends, the peer is
//! dead.
//!
//! `serve` is all that a program needs; the rest is a load. A TCP server and its peers run in this process. Every other
//! peer falls silent at a random time without closing anything, as if a cable had been cut. Both ends keep books. If
//! those do not agree (a dead peer was missed, a live one cut off, one closed too early, a timer left) the program says
//! so and exits with 1.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::{Ledger, conclude, raise_limit_for, whole};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How a connection ended.
enum End {
    Closed,
    /// The peer was silent until this time.
    Dead(Instant),
}

/// Serves a connection until its peer closes it, or is silent for as long as the server has `patience`.
async fn serve(
    mut stream: TcpStream,
    wheel: &TimingWheel,
    patience: Duration,
    mut received: impl FnMut(&[u8]),
) -> io::Result<End> {
    let mut buffer = [0; 64];
    let mut silence = pin!(wheel.sleep(patience));
    loop {
        let read = tokio::select! {
            biased; // A heartbeat that has come counts, even if it is read late.
            read = stream.read(&mut buffer) => read?,
            () = &mut silence => return Ok(End::Dead(silence.deadline())),
        };
        if read == 0 {
            return Ok(End::Closed);
        }
        received(&buffer[..read]);
        silence.as_mut().reset_after(patience);
    }
}

// A server, its peers, and the books of both.

/// A server that notices which of its peers are dead.
#[derive(Parser)]
#[command(name = "heartbeat")]
struct Settings {
    /// How many peers there are, from 2 to 10,000; half of them fall silent
    #[arg(long, value_name = "NUMBER", default_value = "400", value_parser = whole(2..=10_000_u64))]
    #[arg(allow_negative_numbers = true)]
    peers: u64,

    /// After how many milliseconds without a heartbeat a peer is dead, from 100 to 60,000; the run takes about seven
    /// times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(100..=60_000_u64))]
    #[arg(default_value_if("short", "true", "400"), allow_negative_numbers = true)]
    patience: u64,

    /// A quick look: shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// The server's books of a connection.
struct Connection {
    peer: SocketAddr,
    beats: usize,
    /// If the peer was found dead: how long after the deadline.
    dead: Option<Duration>,
}

/// Serves a connection, and notes what came of it.
async fn note(stream: TcpStream, peer: SocketAddr, wheel: TimingWheel, patience: Duration) -> Connection {
    let mut beats = 0;
    let end = serve(stream, &wheel, patience, |received| beats += received.len()).await;
    let dead = match end {
        Ok(End::Dead(since)) => Some(since.elapsed()),
        // An error is that of a peer that left.
        Ok(End::Closed) | Err(_) => None,
    };
    Connection { peer, beats, dead }
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
        connections.spawn(note(stream, peer, wheel.clone(), patience));
    }
    let mut ended = HashMap::new();
    while let Some(connection) = connections.join_next().await.transpose()? {
        dead.inc(connection.dead.is_some().into());
        ended.insert(connection.peer, connection);
    }
    Ok(ended)
}

/// A peer's books.
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

/// Lets server and peers run, and returns what does not add up.
async fn run(Settings { peers, patience, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    raise_limit_for(peers, "peers")?;
    let patience = Duration::from_millis(patience);
    let (every, length) = (patience / 5, 6 * patience);
    println!("{} peers send a heartbeat every {every:?}.", HumanCount(peers));
    println!("After {patience:?} without one they are dead.\n");

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
    let mut ledger = Ledger::new("seen");
    ledger
        .total("peers", total)
        .part("that left in good health", total - silent - held_up)
        .of_these("taken for dead by mistake", cut_off, Some(0))
        .unless_too_busy()
        .part("that fell silent", silent)
        .of_these("found dead", lateness.len(), Some(silent.max(1)))
        .unless_too_busy()
        .of_these("found dead too early", too_early, Some(0))
        .part("held up by the machine, which count no further", held_up)
        .total("heartbeats sent", sent)
        .part_expected("received", received, sent)
        .unless_too_busy()
        // A heartbeat that comes at the very deadline arms its timer again, which is rare.
        .expect(
            "timers armed, one for each peer",
            stats.armed,
            stats.armed.clamp(total, total + total / 10 + 1),
        )
        .unless_too_busy()
        .expect("timers left in the wheel", stats.pending as u64, 0)
        .lateness("dead ones found late", |share| Duration::from_nanos(lateness.value_at_quantile(share)));
    Ok(ledger.print(
        "What it means: the server found each silent peer, cut off no live one, and each\n\
         connection took one timer for all of its heartbeats.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}
