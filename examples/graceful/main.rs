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

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::Answer::Done;
use timingwheel_durable::{Durable, Kind, MemoryStore, Run, Stopped};
use timingwheel_examples::{Ledger, conclude, whole};
use timingwheel_jobs::{Ended, Jobs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

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

// Clients that keep the server busy until it ends, the jobs that follow their requests, and the books of both.

/// A server that is ended under load.
#[derive(Parser)]
#[command(name = "graceful")]
struct Settings {
    /// How many clients there are, from 1 to 5,000
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = whole(1..=5_000_usize))]
    #[arg(allow_negative_numbers = true)]
    clients: usize,

    /// How many milliseconds the server runs before it is ended, from 100 to 600,000
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = whole(100..=600_000_u64))]
    #[arg(default_value_if("short", "true", "1000"), allow_negative_numbers = true)]
    millis: u64,

    /// How many milliseconds the end may take, from 0 to 60,000; then the rest is aborted
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = whole(0..=60_000_u64))]
    #[arg(allow_negative_numbers = true)]
    limit: u64,

    /// A quick look: a shorter run, unless it is given
    #[arg(long)]
    short: bool,
}

/// The counts of the server and its clients.
#[derive(Default)]
struct Books {
    begun: AtomicU64,
    answered: AtomicU64,
    received: AtomicU64,
    jobs: AtomicU64,
    timers: AtomicU64,
    refused: AtomicU64,
    receipts: AtomicU64,
    reports: AtomicU64,
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
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

/// Answers requests of a byte until the client leaves or the server ends, which waits for the answer that is owed.
async fn answer(
    mut stream: TcpStream,
    mut ends: watch::Receiver<bool>,
    (jobs, durable, books): (Jobs<u64>, Durable, Arc<Books>),
) {
    let mut request = [0];
    while !*ends.borrow() {
        tokio::select! {
            biased; // A request that has come is answered.
            read = stream.read_exact(&mut request) => if read.is_err() { return },
            _ = ends.wait_for(|&ends| ends) => return,
        }
        let number = count(&books.begun);
        sleep(some_millis(50)).await;
        // The jobs and the durable timers end after the connections, so neither refuses.
        let receipt = jobs.try_run_after(number, some_millis(2_000), send_receipt(books.clone()));
        count(if receipt.is_ok() { &books.jobs } else { &books.refused });
        if number.is_multiple_of(10) {
            let saved = durable.after(some_millis(2_000), &Report { request: number }).save().await;
            count(if saved.is_ok() { &books.timers } else { &books.refused });
        }
        if stream.write_all(&request).await.is_ok() {
            count(&books.answered);
        }
    }
}

async fn send_receipt(books: Arc<Books>) {
    sleep(some_millis(300)).await;
    count(&books.receipts);
}

/// Asks until the server closes the connection. It may do so before it reads the last request, and does not when it has.
async fn ask(address: SocketAddr, books: Arc<Books>) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let mut answer = [0];
    while stream.write_all(&[1]).await.is_ok() {
        match stream.read_exact(&mut answer).await {
            Ok(_) => count(&books.received),
            Err(_) => break,
        };
    }
}

async fn run(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let (wheel, books) = (TimingWheel::new(), Arc::new(Books::default()));
    let jobs = Jobs::new(&wheel);
    let reports = books.clone();
    let handler = move |Report { request: _ }, _: Run| {
        let books = reports.clone();
        async move {
            sleep(some_millis(300)).await;
            count(&books.reports);
            Ok(Done)
        }
    };
    let durable = Durable::builder(&wheel, MemoryStore::new()).on(handler).start().await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;

    let mut clients = JoinSet::new();
    for _ in 0..settings.clients {
        clients.spawn(ask(address, books.clone()));
    }
    let bar = ProgressBar::new(settings.millis / 100);
    bar.set_style(ProgressStyle::with_template("serving {wide_bar} {pos:>3} of {len} tenths of a second")?);
    let terminate = async {
        for _ in 0..settings.millis / 100 {
            sleep(Duration::from_millis(100)).await;
            bar.inc(1);
        }
        bar.finish_and_clear();
        kill_process(getpid(), Signal::TERM)
    };
    let follow_up = (jobs.clone(), durable.clone(), books.clone());
    let limit = Duration::from_millis(settings.limit);
    let served = serve(listener, (&wheel, &jobs, &durable), limit, |stream, ends| {
        answer(stream, ends, follow_up.clone())
    });
    let (farewell, sent) = tokio::join!(served, terminate);
    let (farewell, ()) = (farewell?, sent?);
    while clients.join_next().await.is_some() {}

    // Jobs that have not begun are not lost: here they run now; another program would store them.
    let not_begun = farewell.jobs.not_begun.len() as u64;
    join_all(farewell.jobs.not_begun.into_iter().filter_map(|job| job.future)).await;

    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (begun, answered) = (of(&books.begun), of(&books.answered));
    let (ran, reported) = (farewell.jobs.finished as u64, farewell.timers.finished);
    let stored = durable.count().await?;
    let aborted = farewell.jobs.aborted as u64;
    let mut ledger = Ledger::new("count");
    ledger
        .total("requests that the server has begun", begun)
        .part("answered", answered)
        .part("cut off at the limit", begun - answered)
        .total("connections open at the signal", farewell.connections as u64)
        .part("ended by themselves", (farewell.connections - farewell.cut_off) as u64)
        .part("aborted at the limit", farewell.cut_off as u64)
        .expect("answers that clients have received", of(&books.received), answered)
        .expect("follow-ups that were refused", of(&books.refused), 0)
        .total("jobs, one for each request", of(&books.jobs))
        .part("run before the end", of(&books.receipts) - ran - not_begun)
        .part("waited for", ran)
        .part("handed back, and run after the end", not_begun)
        .part("aborted at the limit", aborted)
        .total("durable timers", of(&books.timers))
        .part("handled before the end", of(&books.reports) - reported)
        .part("waited for", reported)
        .part("left in the store, for the next start", stored.stored + stored.begun);
    for (what, took) in
        ["the end of the connections", "then the end of the jobs", "and of the durable timers, beside that,"]
            .into_iter()
            .zip(farewell.took)
    {
        ledger.text(&format!("{what} took"), &format!("{} ms", took.as_millis()));
    }
    Ok(ledger.print(
        "What it means: the server ended within its limit, and no work is missing. Jobs\n\
         that had not begun were handed back, and timers wait in their store.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}
