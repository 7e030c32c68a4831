//! How do I end a server without cutting off work that could still end in time?
//!
//! `cargo run --release -p timingwheel-examples --example graceful`
//!
//! SIGTERM ends a server under load. It accepts no more connections, and each connection ends with its last answer. Then
//! running jobs and handlers come to their end, all within one limit. Jobs that have not begun are handed back; durable
//! timers stay in their store. `serve` is the code to copy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::Answer::Done;
use timingwheel_durable::{Durable, Kind, MemoryStore, Run};
use timingwheel_jobs::Jobs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

#[derive(Clone)]
struct Server {
    wheel: TimingWheel,
    jobs: Jobs<u64>,
    durable: Durable,
    requests: Arc<AtomicU64>,
}

/// What was left when the server ended.
struct Left {
    cut_off: usize,
    jobs: usize,
    timers: u64,
}

/// Serves until SIGTERM, and then ends all within `limit`.
async fn serve(
    server: Server,
    listener: TcpListener,
    limit: Duration,
) -> Result<Left, Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let (end, ends) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                connections.spawn(answer(accepted?.0, ends.clone(), server.clone()));
            }
            // Takes ended tasks out of the set.
            Some(_) = connections.join_next() => {}
            _ = terminate.recv() => break,
        }
    }
    drop(listener);
    end.send_replace(true);

    // First what makes work, and then the work, all within one limit.
    let begin = Instant::now();
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _elapsed = server.wheel.timeout(limit, all_ended).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    let rest = limit.saturating_sub(begin.elapsed());
    let (jobs, _stopped) = tokio::join!(server.jobs.shutdown(rest), server.durable.stop(rest));
    server.wheel.shutdown();
    Ok(Left { cut_off, jobs: jobs.not_begun.len(), timers: server.durable.count().await?.stored })
}

/// Answers requests of a byte until the client leaves or the server ends, which waits for the answer that is owed.
async fn answer(mut stream: TcpStream, mut ends: watch::Receiver<bool>, server: Server) -> io::Result<()> {
    let mut request = [0];
    while !*ends.borrow() {
        tokio::select! {
            biased; // A request that has come is answered.
            read = stream.read_exact(&mut request) => read?,
            _ = ends.wait_for(|&ends| ends) => return Ok(()),
        };
        sleep(some_millis(50)).await;
        let number = server.requests.fetch_add(1, Ordering::Relaxed);
        // Jobs and durable timers end after the connections, so neither refuses.
        server.jobs.try_run_after(number, some_millis(2_000), async {}).map_err(io::Error::other)?;
        if number.is_multiple_of(10) {
            let saved = server.durable.after(some_millis(20_000), &Report { request: number }).save();
            saved.await.map_err(io::Error::other)?;
        }
        stream.write_all(&request).await?;
    }
    Ok(())
}

/// A durable timer for each tenth request.
#[derive(Serialize, Deserialize)]
struct Report {
    request: u64,
}

impl Kind for Report {
    const KIND: &'static str = "report";
}

fn some_millis(most: u64) -> Duration {
    Duration::from_millis(fastrand::u64(1..=most))
}

/// Asks until the server closes the connection. Returns how many answers came.
async fn ask(mut stream: TcpStream) -> u64 {
    let mut answers = 0;
    while stream.write_all(&[1]).await.is_ok() && stream.read_exact(&mut [0]).await.is_ok() {
        answers += 1;
    }
    answers
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wheel = TimingWheel::new();
    let handler = async |Report { request: _ }, _: Run| Ok(Done);
    let durable = Durable::builder(&wheel, MemoryStore::new()).on(handler).start().await?;
    let server = Server { jobs: Jobs::new(&wheel), wheel, durable, requests: Arc::default() };
    let requests = server.requests.clone();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        // The system completes the connections before the server accepts them.
        clients.spawn(ask(TcpStream::connect(listener.local_addr()?).await?));
    }
    let terminate = async {
        sleep(Duration::from_secs(1)).await;
        kill_process(getpid(), Signal::TERM)
    };
    let (left, sent) = tokio::join!(serve(server, listener, Duration::from_secs(10)), terminate);
    let (left, ()) = (left?, sent?);

    let answers: u64 = clients.join_all().await.into_iter().sum();
    let requests = requests.load(Ordering::Relaxed);
    println!("| requests begun                      | {requests:>6} |");
    println!("| answers that came                   | {answers:>6} |");
    println!("| connections cut off at the limit    | {:>6} |", left.cut_off);
    println!("| jobs handed back                    | {:>6} |", left.jobs);
    println!("| durable timers for the next start   | {:>6} |", left.timers);
    assert_eq!((answers, left.cut_off), (requests, 0), "an answer was cut off");
    println!("What it means: each request that had begun was answered. No work is missing.");
    Ok(())
}
