//! What do timers cost a server with thousands of connections, how late do they fire, and does the work behind a request
//! that ran out of time really stop?
//!
//! `cargo run --release -p timingwheel-examples --example rpc_server`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! `serve` is the code to copy: each connection has an idle timer that moves with every request, and each request runs
//! under a timeout. The rest is a load. Server and clients run in this process, on a `TimingWheel` and on `tokio::time`. A
//! run before these pays for new memory and is not counted. The table has both side by side; if a count does not add up,
//! the program says so and fails.

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timingwheel::TimingWheel;
use timingwheel_examples::cpu_time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// A connection without a request for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves one connection until its client leaves, or has been silent for too long. In your program `timers` is a
/// `TimingWheel`, and `silence` is `pin!(wheel.sleep(IDLE_TIMEOUT))`: this is generic only to run on tokio's timers too.
async fn serve<T: Timers>(mut stream: TcpStream, timers: T, counts: Arc<Counts>) -> io::Result<()> {
    let mut silence = pin!(timers.sleep(IDLE_TIMEOUT));
    loop {
        let request = tokio::select! {
            biased; // A request that has come counts, even if it is read late.
            request = read(&mut stream) => request?,
            () = silence.as_mut() => {
                counts.fired(T::deadline(&silence));
                add(&counts.closed_idle);
                return Ok(());
            }
        };
        let Some(work) = request else { return Ok(()) };
        T::reset(silence.as_mut(), Instant::now() + IDLE_TIMEOUT);

        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let answer = match timers.timeout(deadline, do_work(&timers, work, &counts)).await {
            Some(()) => DONE,
            None => {
                counts.fired(deadline);
                TIMED_OUT
            }
        };
        stream.write_u64(answer).await?;
    }
}

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
async fn do_work<T: Timers>(timers: &T, work: Duration, counts: &Counts) {
    struct Stopped<'a>(&'a Counts, bool);
    impl Drop for Stopped<'_> {
        fn drop(&mut self) {
            add(if self.1 { &self.0.finished } else { &self.0.stopped });
        }
    }
    let mut guard = Stopped(counts, false);
    let sleep = timers.sleep(work);
    let deadline = T::deadline(&sleep);
    sleep.await;
    counts.fired(deadline);
    guard.1 = true;
}

// Clients: they think, ask, check the answer, and now and then fall silent to see whether the server hangs up.

#[derive(Clone, Copy)]
struct Load {
    until: Instant,
    think: Duration,
}

/// Of a hundred requests so many take longer than they may, and so many are a connection's last.
const SLOW: u64 = 5;
const SILENT: u64 = 2;

async fn client<T: Timers>(
    server: std::net::SocketAddr,
    connecting: Arc<Semaphore>,
    load: Load,
    timers: T,
    counts: Arc<Counts>,
) -> io::Result<()> {
    while Instant::now() < load.until {
        let permit = connecting.acquire().await.map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        drop(permit);
        loop {
            timers.sleep(load.think.mul_f64(0.5 + fastrand::f64())).await;
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
    Ok(())
}

// The timers: the wheel's and tokio's.

trait Timers: Clone + Send + Sync + 'static {
    type Sleep: Future<Output = ()> + Send;

    fn sleep(&self, duration: Duration) -> Self::Sleep;
    fn deadline(sleep: &Self::Sleep) -> Instant;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);
    /// The output of `work`, or `None` if it was cut off.
    fn timeout<F>(&self, deadline: Instant, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;
    /// How many timers were armed and are pending, if anybody counts them.
    fn counts(&self) -> Option<(u64, usize)>;
}

impl Timers for TimingWheel {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.sleep(duration)
    }
    fn deadline(sleep: &Self::Sleep) -> Instant {
        sleep.deadline()
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }
    async fn timeout<F>(&self, deadline: Instant, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        self.timeout_at(deadline, work).await.ok()
    }
    fn counts(&self) -> Option<(u64, usize)> {
        Some((self.stats().armed, self.pending()))
    }
}

#[derive(Clone)]
struct TokioTime;

impl Timers for TokioTime {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }
    fn deadline(sleep: &Self::Sleep) -> Instant {
        sleep.deadline()
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline);
    }
    async fn timeout<F>(&self, deadline: Instant, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        tokio::time::timeout_at(deadline, work).await.ok()
    }
    fn counts(&self) -> Option<(u64, usize)> {
        None
    }
}

// A run, its counts, and the table of both.

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    done: AtomicU64,
    timed_out: AtomicU64,
    held_up: AtomicU64,
    finished: AtomicU64,
    stopped: AtomicU64,
    silent: AtomicU64,
    closed_idle: AtomicU64,
    early: AtomicU64,
    late: Mutex<Option<Histogram<u64>>>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

impl Counts {
    /// Notes that a timer for `deadline` has fired now.
    fn fired(&self, deadline: Instant) {
        let Some(late) = Instant::now().checked_duration_since(deadline) else { return add(&self.early) };
        let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_with(|| Histogram::new(3).expect("three digits"));
        all.record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)).expect("it grows as needed");
    }

    fn within(&self, share: f64) -> Duration {
        let all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_nanos(all.as_ref().map_or(0, |all| all.value_at_quantile(share)))
    }
}

struct Outcome {
    counts: Arc<Counts>,
    timers: Option<(u64, usize)>,
    cpu: Duration,
    switches: i64,
}

/// Voluntary or not.
fn context_switches() -> io::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.voluntary_context_switches() + usage.involuntary_context_switches())
}

/// Runs server and clients to the end, on a runtime of their own.
fn run<T: Timers>(
    name: &'static str,
    settings: &Settings,
    timers: impl FnOnce() -> T,
) -> Result<Outcome, Box<dyn Error>> {
    let (cpu, switches) = (cpu_time()?, context_switches()?);
    let counts = Arc::new(Counts::default());
    let (load, seen) = (settings.clone(), counts.clone());
    let timers = Runtime::new()?.block_on(async move {
        let timers = timers();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let server = listener.local_addr()?;
        let accepting = (timers.clone(), seen.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A connection that breaks is missed by its client, who then fails.
                _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, accepting.0.clone(), accepting.1.clone()));
            }
        });

        let length = Duration::from_secs(load.seconds);
        let bar = ProgressBar::new(load.seconds * 10);
        bar.set_style(ProgressStyle::with_template("{prefix:12} {wide_bar} {msg}")?);
        bar.set_prefix(name);
        let until = Instant::now() + length;
        // The listener's queue holds no more.
        let connecting = Arc::new(Semaphore::new(64));
        let mut clients = JoinSet::new();
        for _ in 0..load.connections {
            let load = Load { until, think: Duration::from_millis(load.think) };
            clients.spawn(client(server, connecting.clone(), load, timers.clone(), seen.clone()));
        }
        while !clients.is_empty() {
            tokio::select! {
                Some(ended) = clients.join_next() => ended??,
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    bar.inc(1);
                    bar.set_message(format!("{} requests", HumanCount(seen.requests.load(Relaxed))));
                }
            }
        }
        bar.finish_and_clear();
        accepting.abort();
        Ok::<_, Box<dyn Error>>(timers.counts())
    })?;
    Ok(Outcome { counts, timers, cpu: cpu_time()? - cpu, switches: context_switches()? - switches })
}

/// An RPC server with thousands of connections and their clients, on a timing wheel and on tokio's timers: how late
/// the timers fire, and what they cost.
#[derive(Clone, Parser)]
#[command(name = "rpc_server")]
struct Settings {
    /// How many connections there are at a time, from 1 to 25,000
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = whole(1..=25_000))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    connections: u64,

    /// How many seconds a run takes, from 1 to 3,600
    #[arg(long, value_name = "NUMBER", default_value = "10", value_parser = whole(1..=3_600))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: u64,

    /// How many milliseconds a client waits before a request, on average, from 1 to 1,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(1..=1_000))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    think: u64,

    /// A quick look: fewer connections and seconds, unless they are given
    #[arg(long)]
    short: bool,
}

/// Takes whole numbers within `limits`.
fn whole(limits: std::ops::RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number.ok_or_else(|| format!("it must be a whole number from {least} to {most}, got {text}"))
    }
}

impl Outcome {
    fn of_each(&self, all: f64) -> f64 {
        all / self.counts.requests.load(Relaxed) as f64
    }

    fn cpu_of_each(&self) -> f64 {
        self.of_each(self.cpu.as_secs_f64())
    }

    fn switches_of_each(&self) -> f64 {
        self.of_each(self.switches as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    // Both ends of a connection are in this process.
    let needed = 2 * settings.connections + 64;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    if let Some(files) = maximum.filter(|&files| files < needed) {
        let allowed = files.saturating_sub(64) / 2;
        let connections = settings.connections;
        return Err(format!(
            "the file limit allows {allowed} connections, got {connections}: raise it with `ulimit -n {needed}`"
        )
        .into());
    }
    println!(
        "{} connections for {} s, with a request every {} ms. A request may take {REQUEST_TIMEOUT:?};\n\
         {SLOW} % take longer. After {SILENT} % of the answers the client is silent for {IDLE_TIMEOUT:?}.\n",
        HumanCount(settings.connections),
        settings.seconds,
        settings.think
    );
    run("warming up", &Settings { seconds: 1, ..settings.clone() }, || TokioTime)?;
    let wheel = run("timing wheel", &settings, TimingWheel::new)?;
    let tokio = run("tokio::time", &settings, || TokioTime)?;
    print(&wheel, &tokio);
    check(&wheel);
    check(&tokio);
    Ok(())
}

fn print(wheel: &Outcome, tokio: &Outcome) {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "timing wheel", "tokio::time", "ratio"]);
    let count = |count: &AtomicU64| HumanCount(count.load(Relaxed)).to_string();
    let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let ratio = |of: fn(&Outcome) -> f64| format!("{:.2}", of(wheel) / of(tokio));
    let mut row = |name: &str, of: &dyn Fn(&Outcome) -> String, ratio: String| {
        table.add_row([name.to_owned(), of(wheel), of(tokio), ratio]);
    };
    row("requests", &|run| count(&run.counts.requests), String::new());
    row("- done", &|run| count(&run.counts.done), String::new());
    row("- timed out", &|run| count(&run.counts.timed_out), String::new());
    row("- timed out: machine too busy", &|run| count(&run.counts.held_up), String::new());
    row("work that was stopped", &|run| count(&run.counts.stopped), String::new());
    row("connections closed as idle", &|run| count(&run.counts.closed_idle), String::new());
    row(
        "timers armed in the wheel",
        &|run| run.timers.map_or("-".into(), |(armed, _)| HumanCount(armed).to_string()),
        String::new(),
    );
    row(
        "late: half within",
        &|run| millis(run.counts.within(0.5)),
        ratio(|run| run.counts.within(0.5).as_secs_f64()),
    );
    row(
        "late: 99 % within",
        &|run| millis(run.counts.within(0.99)),
        ratio(|run| run.counts.within(0.99).as_secs_f64()),
    );
    row(
        "late: all within",
        &|run| millis(run.counts.within(1.0)),
        ratio(|run| run.counts.within(1.0).as_secs_f64()),
    );
    // A slow machine serves not as many in one run as in the other.
    row(
        "CPU time of a request",
        &|run| format!("{:.0} µs", run.cpu_of_each() * 1e6),
        ratio(Outcome::cpu_of_each),
    );
    row(
        "context switches of a request",
        &|run| format!("{:.2}", run.switches_of_each()),
        ratio(Outcome::switches_of_each),
    );
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!(
        "{table}\n\nRows with a dash add up to the row above them. ratio: wheel / tokio.\n\n\
         What it means: half of the wheel's timers were within {}, tokio's {}.\n\
         Each request that timed out stopped its work. Timers are a small part of the\n\
         CPU time of such a server.",
        millis(wheel.counts.within(0.5)),
        millis(tokio.counts.within(0.5))
    );
}

/// Fails if the counts of a run do not add up.
fn check(run: &Outcome) {
    let of = |count: &AtomicU64| count.load(Relaxed);
    let Counts { requests, done, timed_out, held_up, finished, stopped, silent, closed_idle, early, .. } =
        &*run.counts;
    assert_eq!(of(requests), of(done) + of(timed_out) + of(held_up), "a request was not answered");
    assert_eq!(of(finished), of(done), "work was done that its client was told is not");
    assert_eq!(of(stopped), of(timed_out) + of(held_up), "work went on after its request had timed out");
    assert!(of(silent) <= of(closed_idle), "a silent client was not noticed");
    assert_eq!(of(early), 0, "a timer was early");
    assert!(run.timers.is_none_or(|(armed, _)| armed > of(requests)), "no timer reached the wheel");
}
