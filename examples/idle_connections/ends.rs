//! Both ends of the connections, and their books.

use std::collections::HashMap;
use std::io;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use indicatif::ProgressBar;
use timingwheel::TimingWheel;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::echo;

// The server's books: how each connection ended.

/// The server's books of a connection.
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

/// The state of a connection, and its counts.
#[derive(Default)]
struct Seen {
    echoed: usize,
    /// The operation that waits, and since when.
    waits: Option<(Direction, Instant)>,
}

/// A connection that notes what it is at.
struct Noted<'a> {
    stream: TcpStream,
    seen: &'a mut Seen,
}

impl Noted<'_> {
    fn poll<T>(
        &mut self,
        direction: Direction,
        poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<T>,
    ) -> Poll<T> {
        if self.seen.waits.is_none_or(|(before, _)| before != direction) {
            self.seen.waits = Some((direction, Instant::now()));
        }
        let polled = poll(Pin::new(&mut self.stream));
        if polled.is_ready() {
            self.seen.waits = None;
        }
        polled
    }
}

impl AsyncRead for Noted<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(Direction::Read, |stream| stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Noted<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = this.poll(Direction::Write, |stream| stream.poll_write(cx, buf));
        if let Poll::Ready(Ok(written)) = polled {
            this.seen.echoed += written;
        }
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

async fn note(
    stream: TcpStream,
    wheel: TimingWheel,
    limit: Duration,
    tolerance: Option<Duration>,
) -> Connection {
    let mut seen = Seen::default();
    let ended = echo(Noted { stream, seen: &mut seen }, &wheel, limit, tolerance).await;
    // Any other error is that of a client that left.
    let has_timed_out = ended.is_err_and(|error| error.kind() == ErrorKind::TimedOut);
    let (closed_in, waited) = match seen.waits {
        Some((direction, since)) if has_timed_out => (Some(direction), since.elapsed()),
        _ => (None, Duration::ZERO),
    };
    Connection { echoed: seen.echoed, waited, closed_in }
}

/// Accepts so many `clients`, and waits until their connections have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    clients: u64,
    wheel: TimingWheel,
    limit: Duration,
    tolerance: Option<Duration>,
    closed: ProgressBar,
) -> io::Result<HashMap<SocketAddr, Connection>> {
    let mut connections = JoinSet::new();
    for _ in 0..clients {
        let (stream, client) = listener.accept().await?;
        let wheel = wheel.clone();
        connections.spawn(async move { (client, note(stream, wheel, limit, tolerance).await) });
    }
    let mut ended = HashMap::new();
    while let Some((client, connection)) = connections.join_next().await.transpose()? {
        closed.inc(connection.closed_in.is_some().into());
        ended.insert(client, connection);
    }
    Ok(ended)
}

// The clients, good and bad, and their books.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Good,
    Slow,
    Silent,
    Deaf,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Good, Kind::Slow, Kind::Silent, Kind::Deaf];

/// A client's books.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) kind: Kind,
    /// Bytes that came back.
    pub(crate) echoed: usize,
    /// The longest that it was silent, or took nothing.
    pub(crate) longest_gap: Duration,
}

/// Talks to the server until `end`, in the way of its `kind`. A bad client then waits until the server closes.
pub(crate) async fn live(
    mut stream: TcpStream,
    kind: Kind,
    limit: Duration,
    end: Instant,
) -> io::Result<Client> {
    const MESSAGE: &[u8] = b"Is anybody there?";
    let address = stream.local_addr()?;
    let mut client = Client { address, kind, echoed: 0, longest_gap: Duration::ZERO };
    let pause = if kind == Kind::Slow { limit / 2 } else { limit / 10 };
    let mut last = Instant::now();
    // Not all at the same time.
    sleep(pause.mul_f64(fastrand::f64())).await;
    while client.echoed == 0 || Instant::now() < end {
        if kind == Kind::Deaf {
            // Until the server, whose echo nobody takes, takes no more either and closes.
            while stream.write_all(&[0; 4096]).await.is_ok() {}
            return Ok(client);
        }
        let mut answer = [0; MESSAGE.len()];
        let round = async {
            stream.write_all(MESSAGE).await?;
            stream.read_exact(&mut answer).await
        };
        let is_over = round.await.is_err();
        client.longest_gap = client.longest_gap.max(last.elapsed());
        if is_over || answer != MESSAGE {
            return Ok(client);
        }
        last = Instant::now();
        client.echoed += MESSAGE.len();
        sleep(pause).await;
    }
    if kind == Kind::Silent {
        // Whether this is the end of the stream or an error, the server has closed it.
        let _ = stream.read(&mut [0]).await;
    }
    Ok(client)
}
