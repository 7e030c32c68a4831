//! What do timers cost a server with thousands of connections, how late do they fire, and does the work behind a
//! request that ran out of time really stop?
//!
//! `cargo run --release -p timingwheel-examples --example rpc_server`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! `serve` is all that a program needs: each connection has an idle timer that moves with every request, and each
//! request runs under a timeout. The rest is a load. A TCP server and its clients run in this process, all on a
//! `TimingWheel`, then once more on `tokio::time`. A short run before them is not counted, because the first run pays for
//! new memory. The closing table has both side by side. The program checks its own counts: if they do not add up, it says
//! so and exits with 1.
//!
//! CPU time and context switches are those of server and clients together. The runs follow each other, so other work on the
//! machine may disturb one of them.

use std::io;
use std::pin::Pin;

use tokio::net::TcpStream;
use tokio::select;
use tokio::time::Instant;

use protocol::{Answer, Request, Status};
use server::Server;
use timers::{Sleep, Timers};

/// Why a connection was closed.
enum Closed {
    ByItsClient,
    /// The client was silent until then.
    Idle(Instant),
}

/// Serves one connection until its client leaves or is silent for too long. In your program `timers` is a `TimingWheel`,
/// and `silence` is `pin!(wheel.sleep(idle_timeout))`: this is generic only to run on tokio's timers too.
async fn serve<T: Timers>(
    stream: &mut TcpStream,
    server: &Server<T>,
    mut silence: Pin<&mut T::Sleep>,
) -> io::Result<Closed> {
    let Server { timers, idle_timeout, request_timeout, .. } = server;
    loop {
        let request = select! {
            biased; // A request that has come counts, even if it is read late.
            request = Request::read(stream) => request?,
            () = silence.as_mut() => return Ok(Closed::Idle(silence.deadline())),
        };
        let Some(request) = request else { return Ok(Closed::ByItsClient) };
        silence.as_mut().reset(Instant::now() + *idle_timeout);

        let id = request.id;
        let status = match timers.timeout(*request_timeout, server.work(request)).await {
            Some(()) => Status::Done,
            None => Status::TimedOut,
        };
        server.is_over();
        if (Answer { id, status }).write(stream).await?.is_none() {
            return Ok(Closed::ByItsClient);
        }
    }
}

mod books;
mod checks;
mod client;
mod compare;
#[path = "../shared/compared.rs"]
mod compared;
mod file_limit;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;
mod progress;
mod protocol;
mod report;
mod run;
mod server;
mod settings;
mod spent;
mod timers;
mod watched;
mod work;

fn main() -> std::process::ExitCode {
    compare::main()
}
