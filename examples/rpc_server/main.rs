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

mod client;
mod report;
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{fmt, io};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use indicatif::HumanCount;
use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::{Lateness, millis, seconds, verdict, watch, whole, within};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::select;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Client, Load};
use crate::report::{Books, Progress, Spent};
use crate::server::{Answer, Current, Request, Server, Sleep, Status, Timers, TokioTime, Watched};

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

// Runs on one kind of timers and then on the other, and compares them.

fn main() -> ExitCode {
    watch();
    match compare(Settings::parse().checked()) {
        Ok(code) => code,
        Err(words) => {
            eprintln!("error: {words}");
            ExitCode::FAILURE
        }
    }
}

fn compare(settings: Settings) -> Result<ExitCode, String> {
    let settings = client::fit(settings)?;
    println!("{settings}");

    warm_up(&settings)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    if settings.runs(Side::Wheel) {
        let start = || TimingWheel::builder().build().map_err(|error| format!("no wheel: {error}"));
        outcomes.push(run("timing wheel", &settings, start)?);
    }
    if settings.runs(Side::Tokio) {
        outcomes.push(run("tokio::time", &settings, || Ok(TokioTime))?);
    }

    report::print(&outcomes);
    let problems: Vec<String> = outcomes.iter().flat_map(report::problems).collect();
    if problems.is_empty() {
        println!("\n{}", report::ALL_HOLD);
    }
    Ok(verdict(&problems))
}

/// The first run of a process pays for the kernel's memory for so many connections, and for the allocator's. So a run that
/// is not counted comes before, however short, on tokio's timers: if the order favours one side, it is tokio's.
fn warm_up(settings: &Settings) -> Result<(), String> {
    run("warming up", &settings.to_warm_up(), || Ok(TokioTime)).map(drop)
}

// The settings, their limits, and the errors beyond these.

/// A client has a port of its own, and one address has about 28,000 to give where Linux is as it comes.
const MAX_CONNECTIONS: u64 = 25_000;
const MAX_SECONDS: u64 = 3_600;
const MAX_MILLIS: u64 = 600_000;
/// How long a client thinks at most, as a multiple of the average.
const LONGEST_THINK: f64 = 1.5;

/// An RPC server with thousands of connections and their clients, on a timing wheel and then on tokio's timers:
/// how late the timers fire, and what they cost.
#[derive(Clone, Debug, Parser)]
#[command(name = "rpc_server")]
struct Settings {
    /// How many connections there are at a time, from 1 to 25,000, each with a client of its own; fewer if the file limit does not allow so many
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = whole(1..=MAX_CONNECTIONS))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    connections: u64,

    /// How many seconds the clients of a run make requests, from 1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds(1..=MAX_SECONDS))]
    #[arg(default_value_if("short", "true", "1"), allow_negative_numbers = true)]
    seconds: Duration,

    /// After how many milliseconds a request is cut off, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "250", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "80"), allow_negative_numbers = true)]
    request_timeout: Duration,

    /// After how many milliseconds without a request the server closes a connection, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "3000", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    idle_timeout: Duration,

    /// How many milliseconds a client waits before a request, on average, from 1 to 600,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(1..=MAX_MILLIS))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    think: Duration,

    /// The share of requests whose work takes longer than the request timeout, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = share())]
    #[arg(allow_negative_numbers = true)]
    slow_share: f64,

    /// The share of answers after which a client goes silent until the server closes the connection, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.02", value_parser = share())]
    #[arg(allow_negative_numbers = true)]
    silent_share: f64,

    /// The seed of the random numbers, the same in both runs, from 0 to 18,446,744,073,709,551,615
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole(0..=u64::MAX))]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Run on these timers only
    #[arg(long, value_name = "TIMERS")]
    only: Option<Side>,

    /// A quick look: fewer connections and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// The timers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Wheel,
    Tokio,
}

impl Settings {
    fn runs(&self, side: Side) -> bool {
        self.only.is_none_or(|only| only == side)
    }

    /// As many connections, for a second or two: no client thinks for longer, and none goes silent.
    fn to_warm_up(&self) -> Self {
        let second = Duration::from_secs(1);
        let (think, request_timeout) = (self.think.min(second), self.request_timeout.min(second));
        Self { seconds: second, think, request_timeout, silent_share: 0.0, ..self.clone() }
    }

    /// Refuses what no single setting can tell: an idle timeout that would close connections in use.
    fn checked(self) -> Self {
        let Self { idle_timeout, request_timeout, think, .. } = self;
        let busy = request_timeout + think.mul_f64(LONGEST_THINK);
        if idle_timeout <= busy {
            let words = format!(
                "--idle-timeout must be more than {} ms, got {}: connections in use would be closed in the request \
                 timeout and the longest think time, which is {LONGEST_THINK} times the average",
                busy.as_millis(),
                idle_timeout.as_millis(),
            );
            Self::command().error(ErrorKind::ValueValidation, words).exit();
        }
        self
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, request_timeout, idle_timeout, think, slow_share, silent_share, .. } = self;
        writeln!(
            f,
            "{} connections for {} s, with a request about every {} ms",
            HumanCount(self.connections),
            seconds.as_secs(),
            think.as_millis()
        )?;
        writeln!(
            f,
            "request timeout {} ms; {} % of the requests take longer",
            request_timeout.as_millis(),
            percent(*slow_share)
        )?;
        write!(
            f,
            "idle timeout {} ms; after {} % of the answers the client falls silent",
            idle_timeout.as_millis(),
            percent(*silent_share)
        )
    }
}

/// To a hundredth.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}

fn share() -> impl Fn(&str) -> Result<f64, String> + Clone {
    within(0.0..=1.0, "a number")
}

// One run: a fresh runtime with server and clients on one kind of timers. The main thread watches it.

/// How often the main thread looks. It waits on no timer of either sort.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// If a run takes longer than its settings say, and by more than this, it counts as stuck.
const GRACE: Duration = Duration::from_secs(30);
/// How many clients connect at a time: fewer than the listener queues. What finds the queue full tries again only
/// a second later.
const CONNECTING: usize = 64;

/// The result of a run.
struct Outcome {
    name: &'static str,
    books: Arc<Books>,
    lateness: Arc<Lateness>,
    peaks: Peaks,
    /// Timers that the program made.
    timers_made: u64,
    /// Timers that the program still has at the end.
    timers_left: u64,
    /// The timers' own counts at the end.
    stats: Option<Stats>,
    spent: Spent,
}

impl Outcome {
    /// Connections that the server did not close.
    fn closed_by_clients(&self) -> u64 {
        self.books.connections.total().saturating_sub(self.books.idle_closed.get())
    }

    /// Timers that did not come to their end.
    fn timers_dropped(&self) -> u64 {
        self.timers_made.saturating_sub(self.lateness.fired() + self.timers_left)
    }
}

/// The most there was of something, of all the times that the main thread looked.
#[derive(Clone, Copy, Debug, Default)]
struct Peaks {
    connections: u64,
    /// By the program's own count.
    timers: u64,
    /// By the timers' own count.
    pending: Option<usize>,
}

impl Peaks {
    fn look<T: Timers>(&mut self, books: &Books, timers: &Watched<T>) {
        self.connections = self.connections.max(books.connections.now());
        self.timers = self.timers.max(timers.held().now());
        self.pending = self.pending.max(timers.timers().stats().map(|stats| stats.pending));
    }
}

/// Runs server and clients to the end on the timers that `start` makes on a fresh runtime.
fn run<T: Timers>(
    name: &'static str,
    settings: &Settings,
    start: impl FnOnce() -> Result<T, String>,
) -> Result<Outcome, String> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let timers = {
        let _context = runtime.enter();
        Watched::new(start()?)
    };
    let books = Arc::new(Books::default());

    let before = Spent::so_far();
    let (done, end) = channel();
    runtime.spawn({
        let scenario = scenario(settings.clone(), timers.clone(), books.clone());
        async move {
            // Nobody listens any more if the main thread has given up.
            let _ = done.send(scenario.await);
        }
    });

    let longest = settings.seconds + settings.idle_timeout + settings.request_timeout + GRACE;
    let mut progress = Progress::start(name, settings.seconds);
    let mut peaks = Peaks::default();
    loop {
        match end.recv_timeout(LOOK_EVERY) {
            Ok(result) => break result.map_err(|words| format!("{name}: {words}"))?,
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{name}: the run has panicked")),
            Err(RecvTimeoutError::Timeout) if progress.elapsed() > longest => {
                runtime.shutdown_background();
                return Err(format!("{name}: the run has not ended after {} s", longest.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        peaks.look(&books, &timers);
        progress.show(&books, peaks.timers);
    }
    let spent = Spent::so_far().since(before);
    progress.finish();

    Ok(Outcome {
        name,
        lateness: timers.lateness(),
        peaks,
        timers_made: timers.held().total(),
        timers_left: timers.held().now(),
        stats: timers.timers().stats(),
        spent,
        books,
    })
}

/// Server and clients, until all connections are closed.
async fn scenario<T: Timers>(
    settings: Settings,
    timers: Watched<T>,
    books: Arc<Books>,
) -> Result<(), String> {
    let (listener, address) = listen().await.map_err(|error| format!("no server: {error}"))?;
    let (stop, stopped) = oneshot::channel();
    let server = Server {
        request_timeout: settings.request_timeout,
        idle_timeout: settings.idle_timeout,
        timers: timers.clone(),
        books: books.clone(),
        current: Current::default(),
    };
    let server = async {
        let server = tokio::spawn(server.run(listener, stopped)).await;
        server.map_err(|error| format!("the server's task ended: {error}"))?
    };
    let clients = async {
        clients(&settings, address, timers, books).await?;
        drop(stop);
        Ok(())
    };
    tokio::try_join!(server, clients).map(|_| ())
}

async fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn clients<T: Timers>(
    settings: &Settings,
    server: SocketAddr,
    timers: Watched<T>,
    books: Arc<Books>,
) -> Result<(), String> {
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let until = Instant::now() + settings.seconds;
    let mut clients = JoinSet::new();
    for number in 0..settings.connections {
        let client = Client {
            server,
            connecting: connecting.clone(),
            until,
            idle_timeout: settings.idle_timeout,
            load: Load::new(settings, number),
            timers: timers.clone(),
            books: books.clone(),
        };
        clients.spawn(client.run());
    }
    while let Some(client) = clients.join_next().await {
        client.map_err(|error| format!("a client's task ended: {error}"))??;
    }
    Ok(())
}
