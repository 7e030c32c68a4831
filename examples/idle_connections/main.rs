//! How do I close connections whose peers are silent, or do not read?
//!
//! `cargo run --release -p timingwheel-examples --example idle_connections`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! `echo` is all that a program needs; the rest is a load. The server guards each connection with an `IdleGuard`. Of four
//! clients, one is good, one is slow but never silent for as long as the limit, one falls silent after a while, and one
//! sends on but does not read the echo. Both ends keep books. If these do not agree (a bad client was missed, a good one
//! cut off, one closed too early, a byte lost, or a connection took more than one timer in half a limit) the program says
//! so and exits with 1.
//!
//! With `-- --tolerance 12.5` connections may be closed late, by 12.5 % of the limit. A second table then shows what
//! that saves where very many connections are idle: how many times the wheel is turned, and CPU time, beside exact
//! timers that are measured in the same run.

use std::io;
use std::time::Duration;

use timingwheel::{TimingWheel, Tolerance};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Sends back what comes, until the peer closes the connection or is idle for longer than `limit`: that is an error of
/// the kind `TimedOut`.
async fn echo(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    wheel: &TimingWheel,
    limit: Duration,
    tolerance: Option<Tolerance>,
) -> io::Result<()> {
    let mut stream = wheel.idle_guard(stream).with_read_limit(limit).with_write_limit(limit);
    if let Some(tolerance) = tolerance {
        stream = stream.with_tolerance(tolerance);
    }
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

mod client;
mod cost;
#[path = "../shared/files.rs"]
mod files;
#[path = "../shared/limits.rs"]
mod limits;
#[path = "../shared/machine.rs"]
mod machine;
mod report;
mod run;
mod server;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    run::main().await
}
