//! The server. The file that includes it chooses its `time`, in one line.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::time::{Duration, Instant, MissedTickBehavior, interval, sleep, timeout};
use crate::books::{ANSWER, Books, GIVEN_UP, LONG};

/// How long the work of a short request takes.
const WORK: Duration = Duration::from_millis(5);

/// How long any request may take.
const LIMIT: Duration = Duration::from_millis(25);

/// Longer than any request may take.
const NO_END: Duration = Duration::from_secs(3_600);

/// Serves so many connections, each until its peer has been silent for `idle`.
pub(crate) async fn serve(
    listener: TcpListener,
    connections: u64,
    idle: Duration,
    books: Arc<Books>,
) -> io::Result<()> {
    let ticks = tokio::spawn(tick(books.clone()));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await?;
        tasks.spawn(serve_one(stream, idle, books.clone()));
    }
    while let Some(served) = tasks.join_next().await {
        served??;
    }
    ticks.abort();
    Ok(())
}

async fn serve_one(mut stream: TcpStream, idle: Duration, books: Arc<Books>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut silence = pin!(sleep(idle));
    loop {
        let request = tokio::select! {
            biased; // A request that has come counts, even if it is read late.
            request = stream.read_u8() => request,
            () = &mut silence => {
                books.fired(silence.deadline(), Instant::now());
                books.idle.add();
                return Ok(());
            }
        };
        let Ok(request) = request else { return Ok(()) };
        let reply = answer(request, &books).await;
        stream.write_u8(reply).await?;
        silence.as_mut().reset(Instant::now() + idle);
    }
}

async fn answer(request: u8, books: &Books) -> u8 {
    let deadline = Instant::now() + LIMIT;
    let work = async {
        let work = sleep(if request == LONG { NO_END } else { WORK });
        let due = work.deadline();
        work.await;
        books.fired(due, Instant::now());
    };
    match timeout(LIMIT, work).await {
        Ok(()) => {
            books.answered.add();
            ANSWER
        }
        Err(_elapsed) => {
            books.fired(deadline, Instant::now());
            books.given_up.add();
            GIVEN_UP
        }
    }
}

/// Reads the clock a hundred times a second, as something in a server always does.
async fn tick(books: Arc<Books>) {
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let due = ticks.tick().await;
        books.ticks.add();
        books.fired(due, Instant::now());
    }
}
