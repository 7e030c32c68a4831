//! How do I end a server without cutting off work that could still end in time?
//!
//! `cargo run --release -p timingwheel-examples --example graceful`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A server has connections with requests, jobs that follow the requests, and durable timers. SIGTERM ends it under load. It
//! accepts no more connections. Each connection ends with its last answer. Then running jobs and handlers come to their end,
//! all within one limit. Jobs that have not begun are handed back, and their futures are run. Durable timers stay in their
//! store.
//!
//! `serve` is all that a program needs; the rest is a load, and the books of its clients. If an answer was cut
//! off, or a job or a timer is missing from the books, the program says so and exits with 1.

use std::io;
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use timingwheel_durable::{Durable, Stopped};
use timingwheel_jobs::{Ended, Jobs};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The work that the end of the server waited for.
struct Farewell {
    /// Connections that were open, and those that were aborted at the limit.
    connections: usize,
    cut_off: usize,
    jobs: Ended<u64>,
    timers: Stopped,
    /// How long connections took, and then jobs and durable timers.
    took: [Duration; 3],
}

/// Serves until SIGTERM, and then ends all within `limit`.
async fn serve<F>(
    listener: TcpListener,
    (wheel, jobs, durable): (&TimingWheel, &Jobs<u64>, &Durable),
    limit: Duration,
    mut handle: impl FnMut(TcpStream, watch::Receiver<bool>) -> F,
) -> io::Result<Farewell>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut terminate = signal(SignalKind::terminate())?;
    let (end, ends) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                connections.spawn(handle(accepted?.0, ends.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = terminate.recv() => break,
        }
    }
    drop(listener);
    end.send_replace(true);

    // First what makes work, and then the work, all within one limit.
    let begin = Instant::now();
    let open = connections.len();
    let _elapsed = wheel.timeout(limit, async { while connections.join_next().await.is_some() {} }).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    let served = begin.elapsed();
    let left = limit.saturating_sub(served);
    let jobs = async { (jobs.shutdown(left).await, begin.elapsed() - served) };
    let timers = async { (durable.stop(left).await, begin.elapsed() - served) };
    let ((jobs, ran), (timers, stored)) = tokio::join!(jobs, timers);
    wheel.shutdown();
    Ok(Farewell { connections: open, cut_off, jobs, timers, took: [served, ran, stored] })
}

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
