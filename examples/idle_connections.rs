//! How do I close connections whose peers are silent, or do not read? How much do I save if they may be closed late?
//!
//! `cargo run --release -p timingwheel-examples --example idle_connections`
//!
//! `guarded` is the code to copy. An idle guard fails a read or a write that waits longer than its limit. With a tolerance
//! it may fail that much later; then neighbouring timers fire together.

use std::io::{self, ErrorKind};
use std::time::Duration;

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A stream whose reads and writes each wait for at most `limit`, and up to `tolerance` longer.
fn guarded(
    wheel: &TimingWheel,
    stream: TcpStream,
    limit: Duration,
    tolerance: Duration,
) -> IdleGuard<TcpStream> {
    wheel.idle_guard(stream).with_read_limit(limit).with_write_limit(limit).with_tolerance(tolerance)
}

/// Echoes. The kinds of error are: the peer left, or it was silent or did not read (`TimedOut`).
async fn echo(mut stream: IdleGuard<TcpStream>) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
    }
}

const CLIENTS: usize = 300;
const LIMIT: Duration = Duration::from_millis(400);

/// A third of the clients talk and leave, a third fall silent, and a third send and never read.
async fn client(mut stream: TcpStream, number: usize) -> io::Result<()> {
    // Not all at the same time.
    sleep((LIMIT / 2).mul_f64(fastrand::f64())).await;
    if number % 3 == 2 {
        // Ends with an error when the server closes the connection.
        while stream.write_all(&[1; 64 * 1024]).await.is_ok() {}
        return Ok(());
    }
    let mut answer = [0];
    for _ in 0..10 {
        stream.write_all(&[1]).await?;
        stream.read_exact(&mut answer).await?;
        sleep(LIMIT / 10).await;
    }
    if number % 3 == 1 {
        // Ends when the server closes the connection.
        _ = stream.read(&mut answer).await?;
    }
    Ok(())
}

/// Serves all clients, and returns how many left, how many were closed, and how often the wheel turned for them.
async fn run(tolerance: Duration) -> io::Result<(usize, usize, u64)> {
    let wheel = TimingWheel::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (mut clients, mut served) = (JoinSet::new(), JoinSet::new());
    for number in 0..CLIENTS {
        clients.spawn(client(TcpStream::connect(listener.local_addr()?).await?, number));
        served.spawn(echo(guarded(&wheel, listener.accept().await?.0, LIMIT, tolerance)));
    }
    let ends = served.join_all().await;
    let closed = |end: &io::Result<()>| end.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut);
    let closed = ends.iter().filter(|end| closed(end)).count();
    Ok((ends.len() - closed, closed, wheel.stats().turns))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    println!("{CLIENTS} clients, and limits of {LIMIT:?}\n");
    println!("| may be closed late by | left | closed | turns of the wheel |");
    println!("|----------------------:|-----:|-------:|-------------------:|");
    for tolerance in [Duration::ZERO, LIMIT / 8] {
        let (left, closed, turns) = run(tolerance).await?;
        println!("| {:>21} | {left:>4} | {closed:>6} | {turns:>18} |", format!("{tolerance:?}"));
        assert!(closed >= CLIENTS * 2 / 3, "a silent client, or one that does not read, was not closed");
    }
    println!("\nWhat it means: with a tolerance timers fire together, so the wheel turns less.");
    Ok(())
}
