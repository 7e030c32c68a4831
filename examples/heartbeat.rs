//! How do I notice dead peers among many connections?
//!
//! `cargo run --release -p timingwheel-examples --example heartbeat`
//!
//! Each connection has one `Sleep`, which every heartbeat moves. If it ends, the peer is dead. `serve` is the code to copy.

use std::io;
use std::pin::pin;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

enum End {
    Closed,
    /// The peer was silent until this time.
    Dead(Instant),
}

/// Serves a connection until its peer closes it, or is silent for as long as the server has `patience`.
async fn serve(mut stream: TcpStream, wheel: &TimingWheel, patience: Duration) -> io::Result<End> {
    let mut buffer = [0; 64];
    let mut silence = pin!(wheel.sleep(patience));
    loop {
        tokio::select! {
            biased; // A heartbeat that has come counts, even if it is read late.
            read = stream.read(&mut buffer) => if read? == 0 { return Ok(End::Closed) },
            () = &mut silence => return Ok(End::Dead(silence.deadline())),
        }
        silence.as_mut().reset_after(patience);
    }
}

const PEERS: u64 = 200;
const PATIENCE: Duration = Duration::from_millis(500);

/// Sends ten heartbeats. Then every other peer leaves; the rest fall silent, as if a cable had been cut.
async fn live(mut stream: TcpStream, falls_silent: bool) -> io::Result<()> {
    for _ in 0..10 {
        stream.write_all(b"!").await?;
        sleep(PATIENCE / 5).await;
    }
    if falls_silent {
        // Ends when the server closes the connection.
        _ = stream.read(&mut [0]).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let wheel = TimingWheel::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (mut peers, mut connections) = (JoinSet::new(), JoinSet::new());
    for number in 0..PEERS {
        peers.spawn(live(TcpStream::connect(listener.local_addr()?).await?, number % 2 == 0));
        let (stream, wheel) = (listener.accept().await?.0, wheel.clone());
        connections.spawn(async move {
            let end = serve(stream, &wheel, PATIENCE).await;
            end.map(|end| if let End::Dead(since) = end { Some(since.elapsed()) } else { None })
        });
    }

    let (mut left, mut dead, mut latest) = (0, 0, Duration::ZERO);
    while let Some(end) = connections.join_next().await {
        match end?? {
            None => left += 1,
            Some(late) => (dead, latest) = (dead + 1, latest.max(late)),
        }
    }
    let armed = wheel.stats().armed;
    println!(
        "{PEERS} peers: {left} left, {dead} were found dead, at most {latest:.1?} late, by {armed} timers"
    );
    assert!(dead >= PEERS / 2, "a silent peer was not found");
    println!("What it means: however many heartbeats a connection has, it takes one timer.");
    Ok(())
}
