//! The server. The file that includes it chooses its `time`, in one line.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::time::{Duration, Instant, sleep, timeout};
use crate::{ANSWER, GIVEN_UP, LONG};

/// How long any request may take.
const LIMIT: Duration = Duration::from_millis(200);
/// After how much silence a connection is closed.
const IDLE: Duration = Duration::from_secs(1);

/// Serves so many connections, and returns how many were closed as idle.
pub(crate) async fn serve(listener: TcpListener, connections: usize) -> io::Result<usize> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(serve_one(listener.accept().await?.0));
    }
    let ends = tasks.join_all().await;
    Ok(ends.into_iter().filter_map(Result::ok).filter(|&is_idle| is_idle).count())
}

/// Returns whether the connection ended because its peer was silent.
async fn serve_one(mut stream: TcpStream) -> io::Result<bool> {
    let mut silence = pin!(sleep(IDLE));
    loop {
        let request = tokio::select! {
            biased; // A request that has come counts, even if it is read late.
            request = stream.read_u8() => request?,
            () = &mut silence => return Ok(true),
        };
        let work = sleep(Duration::from_millis(if request == LONG { 60_000 } else { 2 }));
        let answer = if timeout(LIMIT, work).await.is_ok() { ANSWER } else { GIVEN_UP };
        stream.write_u8(answer).await?;
        silence.as_mut().reset(Instant::now() + IDLE);
    }
}
