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

use std::io;
use std::pin::pin;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

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

#[path = "../shared/files.rs"]
mod files;
#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    load::main().await
}
