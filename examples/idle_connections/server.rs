//! Echoes what comes through guarded connections, and keeps the server's books.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::ProgressBar;
use timingwheel::{IdleGuard, TimingWheel, Tolerance};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What the server saw of a connection.
pub(crate) struct Connection {
    pub(crate) echoed: usize,
    /// How long the last operation took, if a limit passed.
    pub(crate) waited: Duration,
    /// What that was.
    pub(crate) closed_in: Option<Direction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Sends back what comes, until the client closes the connection or a limit passes.
async fn echo(mut stream: IdleGuard<TcpStream>) -> Connection {
    let mut connection = Connection { echoed: 0, waited: Duration::ZERO, closed_in: None };
    let mut buffer = [0; 4096];
    loop {
        let mut start = Instant::now();
        let mut direction = Direction::Read;
        let mut result = stream.read(&mut buffer).await;
        if let Ok(mut left @ 1..) = result {
            direction = Direction::Write;
            while left > 0 && result.is_ok() {
                start = Instant::now();
                result = stream.write(&buffer[..left]).await;
                left -= result.as_ref().unwrap_or(&0);
                connection.echoed += result.as_ref().unwrap_or(&0);
            }
        } else if result.is_ok() {
            return connection;
        }
        if let Err(error) = result {
            if error.kind() == ErrorKind::TimedOut {
                connection.waited = start.elapsed();
                connection.closed_in = Some(direction);
            }
            return connection;
        }
    }
}

/// Accepts so many `clients`, and waits until their connections have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    clients: u64,
    wheel: TimingWheel,
    limit: Duration,
    tolerance: Option<Tolerance>,
    closed: ProgressBar,
) -> io::Result<HashMap<SocketAddr, Connection>> {
    let mut connections = JoinSet::new();
    for _ in 0..clients {
        let (stream, client) = listener.accept().await?;
        let wheel = wheel.clone();
        connections.spawn(async move {
            let mut stream = wheel.idle_guard(stream).with_read_limit(limit).with_write_limit(limit);
            if let Some(tolerance) = tolerance {
                stream = stream.with_tolerance(tolerance);
            }
            (client, echo(stream).await)
        });
    }
    let mut ended = HashMap::new();
    while let Some((client, connection)) = connections.join_next().await.transpose()? {
        closed.inc(connection.closed_in.is_some().into());
        ended.insert(client, connection);
    }
    Ok(ended)
}
