//! The server, and clients that check what it does. The file that includes it chooses its `time`, in one line.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::time::{Duration, Instant, sleep, timeout_at};
use crate::{Counts, IDLE_TIMEOUT, Load, REQUEST_TIMEOUT, SILENT, SLOW, add};

/// Serves one connection until its client leaves, or has been silent for too long.
async fn serve(mut stream: TcpStream, counts: Arc<Counts>) -> io::Result<()> {
    // The client waits for it, so that no more connect at a time than the listener's queue holds.
    stream.write_u8(ACCEPTED).await?;
    let mut silence = pin!(sleep(IDLE_TIMEOUT));
    loop {
        let request = tokio::select! {
            biased; // A request that has come counts, even if it is read late.
            request = read(&mut stream) => request?,
            () = &mut silence => {
                counts.fired(silence.deadline());
                add(&counts.closed_idle);
                return Ok(());
            }
        };
        let Some(work) = request else { return Ok(()) };
        silence.as_mut().reset(Instant::now() + IDLE_TIMEOUT);

        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let answer = match timeout_at(deadline, do_work(work, &counts)).await {
            Ok(()) => DONE,
            Err(_elapsed) => {
                counts.fired(deadline);
                TIMED_OUT
            }
        };
        stream.write_u64(answer).await?;
    }
}

const ACCEPTED: u8 = 0;
const DONE: u64 = 0;
const TIMED_OUT: u64 = 1;

/// A request: the microseconds of work that it asks for. `None` if the client has left.
async fn read(stream: &mut TcpStream) -> io::Result<Option<Duration>> {
    match stream.read_u64().await {
        Ok(micros) => Ok(Some(Duration::from_micros(micros))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The work behind a request. Its guard counts how it ends: done, or dropped on the way.
async fn do_work(work: Duration, counts: &Counts) {
    struct Stopped<'a>(&'a Counts, bool);
    impl Drop for Stopped<'_> {
        fn drop(&mut self) {
            add(if self.1 { &self.0.finished } else { &self.0.stopped });
        }
    }
    let mut guard = Stopped(counts, false);
    let mut sleep = pin!(sleep(work));
    sleep.as_mut().await;
    counts.fired(sleep.deadline());
    guard.1 = true;
}

/// Runs the server and its clients, until the clients have ended.
pub(crate) async fn run(load: Load, counts: Arc<Counts>) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let server = listener.local_addr()?;
    let mut clients = JoinSet::new();
    let connecting = Arc::new(Semaphore::new(64));
    for _ in 0..load.connections {
        clients.spawn(client(server, connecting.clone(), load, counts.clone()));
    }
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                // A connection that breaks is missed by its client, who then fails.
                tokio::spawn(serve(stream, counts.clone()));
            }
            ended = clients.join_next() => match ended {
                Some(ended) => ended??,
                None => return Ok(()),
            },
        }
    }
}

/// Thinks, asks, checks the answer, and now and then falls silent to see whether the server hangs up.
async fn client(
    server: SocketAddr,
    connecting: Arc<Semaphore>,
    load: Load,
    counts: Arc<Counts>,
) -> io::Result<()> {
    loop {
        let permit = connecting.acquire().await.map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        assert_eq!(stream.read_u8().await?, ACCEPTED);
        drop(permit);
        loop {
            sleep(load.think.mul_f64(0.5 + fastrand::f64())).await;
            if Instant::now() >= load.until {
                return Ok(());
            }
            let is_slow = fastrand::u64(..100) < SLOW;
            let work = REQUEST_TIMEOUT.mul_f64(if is_slow { 2.0 } else { 0.5 * fastrand::f64() });
            let asked = Instant::now();
            add(&counts.requests);
            // Microseconds of less than a second.
            stream.write_u64(u64::try_from(work.as_micros()).unwrap_or(u64::MAX)).await?;
            match (stream.read_u64().await?, is_slow) {
                (DONE, _) => add(&counts.done),
                (_, true) => add(&counts.timed_out),
                // The machine was too busy.
                (_, false) => add(&counts.held_up),
            }
            if fastrand::u64(..100) < SILENT {
                add(&counts.silent);
                // Ends when the server closes the connection.
                _ = stream.read(&mut [0]).await?;
                assert!(asked.elapsed() >= IDLE_TIMEOUT, "a connection was closed too early");
                break;
            }
        }
    }
}
