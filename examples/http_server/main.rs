//! How do I limit slow request heads, slow answers, idle connections and long connections of an HTTP server?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example http_server`, or with `-- --help` for the
//! settings and `-- --short` for a quick look.
//!
//! `serve` and `answer` are all that a program needs: hyper's header timeout, which closes connections that are slow or
//! idle; the age of a connection, after which it is closed between two requests; and a timeout round the work, after which
//! the answer is 504. All of it is on one timing wheel.
//!
//! The rest is a load. A server and its clients run in this process, on loopback sockets. A third of the clients is good,
//! a third sends a head byte by byte, and a third asks once and then says nothing. Both ends keep books. If those do not
//! agree (a request was lost, a connection closed too early, a timer left) the program says so and exits with 1.
//!
//! With `--serve 127.0.0.1:0` it only serves, by `--timers` of your choice, for a load from another program: see
//! `benches/http_load`.

mod ends;
mod serve;

use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use indicatif::{HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::{
    Count, Lateness, Ledger, millis, raise_limit, raise_limit_for, seconds, unless_too_busy, verdict, watch,
    whole,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};

use crate::ends::{Books, Client, Kind, Server};
use crate::serve::By;

type BoxError = Box<dyn Error + Send + Sync>;

/// The server's limits.
#[derive(Clone, Copy, Debug)]
struct Limits {
    header_timeout: Duration,
    request_timeout: Duration,
    keep_alive: Duration,
}

/// Serves a connection. When it is told to close for its age, `closes` learns when that was due.
async fn serve<S>(
    stream: TcpStream,
    service: S,
    wheel: &TimingWheel,
    limits: Limits,
    closes: impl FnOnce(Instant),
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Empty<Bytes>, Error: Into<BoxError>>,
{
    let mut http = http1::Builder::new();
    http.timer(wheel.clone()).header_read_timeout(limits.header_timeout);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut age = pin!(wheel.sleep(limits.keep_alive));
    tokio::select! {
        served = connection.as_mut() => return served,
        () = age.as_mut() => closes(age.deadline()),
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The answer to a request: what `work` says, or 504 if that takes too long. Then the work is dropped.
async fn answer<E>(
    work: impl Future<Output = Result<Response<Empty<Bytes>>, E>>,
    wheel: &TimingWheel,
    limits: Limits,
) -> Result<Response<Empty<Bytes>>, E> {
    match wheel.timeout(limits.request_timeout, work).await {
        Ok(answered) => answered,
        Err(_elapsed) => {
            let mut too_slow = Response::new(Empty::new());
            *too_slow.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            Ok(too_slow)
        }
    }
}

// The settings, their limits, and the errors beyond these.

/// An HTTP server that bounds what its clients may take, with all its timers on a timing wheel.
#[derive(Clone, Debug, Parser)]
#[command(name = "http_server")]
struct Settings {
    /// How many clients of each sort there are, from 1 to 5,000: good, slow and idle ones
    #[arg(long, value_name = "NUMBER", default_value = "300", value_parser = whole(1..=5_000_u64))]
    #[arg(default_value_if("short", "true", "100"), allow_negative_numbers = true)]
    clients: u64,

    /// How many seconds the clients go on, from 1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value = "8", value_parser = seconds(1..=3_600))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: Duration,

    /// How many milliseconds a request's head may take from when the server waits for it, idle time included, from 100 to
    /// 600,000
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = millis(100..=600_000))]
    #[arg(default_value_ifs([("short", "true".into(), "300"), ("serve", ArgPredicate::IsPresent, "30000")]))]
    #[arg(allow_negative_numbers = true)]
    header_timeout: Duration,

    /// After how many milliseconds a request is answered with 504, from 10 to 600,000
    #[arg(long, value_name = "MS", default_value = "250", value_parser = millis(10..=600_000))]
    #[arg(default_value_ifs([("short", "true".into(), "100"), ("serve", ArgPredicate::IsPresent, "30000")]))]
    #[arg(allow_negative_numbers = true)]
    request_timeout: Duration,

    /// After how many milliseconds a connection is closed between two requests, from 200 to 3,600,000
    #[arg(long, value_name = "MS", default_value = "3000", value_parser = millis(200..=3_600_000))]
    #[arg(default_value_if("short", "true", "900"), allow_negative_numbers = true)]
    keep_alive: Duration,

    /// A quick look: fewer clients and shorter times, unless they are given
    #[arg(long)]
    short: bool,

    /// Only serve, at this address, until standard input ends; then tell CPU time, context switches and requests. Both
    /// timeouts are 30 s then, unless they are given, and connections have no limit
    #[arg(long, value_name = "ADDRESS", value_parser = address, allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["clients", "seconds", "keep_alive", "short"])]
    serve: Option<SocketAddr>,

    /// By which timers `--serve` bounds what clients take
    #[arg(long, value_name = "TIMERS", default_value = "wheel", requires = "serve")]
    timers: By,
}

impl Limits {
    fn longest(&self) -> Duration {
        self.header_timeout.max(self.request_timeout).max(self.keep_alive)
    }
}

impl Settings {
    fn limits(&self) -> Limits {
        let Self { header_timeout, request_timeout, keep_alive, .. } = *self;
        Limits { header_timeout, request_timeout, keep_alive }
    }

    /// Refuses what no single setting can tell: connections that would be too old before they are slow.
    fn checked(self) -> Self {
        let least = 2 * self.header_timeout;
        if self.serve.is_none() && self.keep_alive < least {
            let words = format!(
                "--keep-alive must be at least twice the header timeout, {} ms, got {}: it would close slow connections \
                 for their age",
                least.as_millis(),
                self.keep_alive.as_millis(),
            );
            Self::command().error(ErrorKind::ValueValidation, words).exit();
        }
        self
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { header_timeout, request_timeout, keep_alive } = self.limits();
        write!(
            f,
            "{} clients for {:?}, a third each good, slow and idle.\nA head may take {header_timeout:?}, an answer \
             {request_timeout:?}, a connection {keep_alive:?}.",
            HumanCount(self.clients * Kind::ALL.len() as u64),
            self.seconds,
        )
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "it must be an IP address and a port, as 127.0.0.1:8080, or port 0 for a free one, got {text}"
        )
    })
}

// Runs server and clients, or only the server.

/// If a run takes longer than its settings say, and by more than this, it counts as stuck.
const GRACE: Duration = Duration::from_secs(30);
const SHOW_EVERY: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    watch();
    let settings = Settings::parse().checked();
    let ended = match settings.serve {
        Some(address) => only_serve(address, &settings).map(|()| Vec::new()),
        None => run(&settings),
    };
    let problems = ended.unwrap_or_else(|error| vec![error.to_string()]);
    verdict(&problems)
}

/// Only serves.
fn only_serve(address: SocketAddr, settings: &Settings) -> Result<(), BoxError> {
    raise_limit();
    serve::run(address, settings.timers, settings.limits())
}

/// Lets server and clients run, and returns what does not add up.
#[tokio::main]
async fn run(settings: &Settings) -> Result<Vec<String>, BoxError> {
    raise_limit_for(settings.clients * Kind::ALL.len() as u64, "clients")?;
    println!("{settings}\n");
    let wheel = TimingWheel::new();
    let books = Arc::new(Books::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let limits = settings.limits();
    let (stop, stopped) = oneshot::channel();
    let server = Server { wheel: wheel.clone(), limits, books: books.clone() };
    let server = tokio::spawn(server.run(listener, stopped));

    let until = Instant::now() + settings.seconds;
    let mut clients = JoinSet::new();
    for number in 0..settings.clients {
        for kind in Kind::ALL {
            let client = Client { server: address, limits, until, books: books.clone() };
            clients.spawn(client.run(kind, number));
        }
    }
    let progress = tokio::spawn(show_progress(settings.seconds, books.clone()));
    let longest = settings.seconds + limits.longest() + GRACE;
    let ended = timeout(longest, async {
        while let Some(client) = clients.join_next().await {
            client??;
        }
        drop(stop);
        server.await?
    });
    ended
        .await
        .map_err(|_elapsed| format!("the run has not ended after {longest:?}: {}", books.in_words()))??;
    progress.abort();
    // The bar is cleared as the task is dropped, before the table comes.
    let _aborted = progress.await;
    print(&books, limits, &wheel.stats())
}

async fn show_progress(length: Duration, books: Arc<Books>) {
    let style = ProgressStyle::with_template("{wide_bar} {msg}").expect("a correct template");
    // Milliseconds of at most an hour.
    let bar = ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)).with_style(style);
    let bar = bar.with_finish(ProgressFinish::AndClear);
    let mut ticks = interval(SHOW_EVERY);
    loop {
        ticks.tick().await;
        bar.set_position(u64::try_from(bar.elapsed().min(length).as_millis()).unwrap_or(u64::MAX));
        bar.set_message(books.in_words());
    }
}

// The closing tables, and the check of the counts.

/// Prints the closing tables, and returns what does not add up.
fn print(books: &Books, limits: Limits, stats: &Stats) -> Result<Vec<String>, BoxError> {
    print_limits(books, limits);
    let [requests, done, timed_out, asked_again] =
        [&books.requests, &books.done, &books.timed_out, &books.asked_again].map(Count::get);
    let [slow, idle, held_up] = [&books.slow_closed, &books.idle_closed, &books.held_up].map(Count::get);
    let [started, finished, stopped] =
        [&books.work_started, &books.work_finished, &books.work_stopped].map(Count::get);
    let [accepted, ended] = [&books.accepted, &books.ended].map(Count::get);
    let good = accepted - (slow + idle).min(accepted);

    let mut ledger = Ledger::new("seen");
    ledger
        .total("requests of good clients", requests)
        .part("done", done)
        .of_these("with work that is too slow", books.slow_done.get(), Some(0))
        .unless_too_busy()
        .part("answered with 504", timed_out)
        .of_these("with work that is quick", books.quick_cut_off.get(), None)
        .total("requests sent again: connection closed", asked_again)
        .total("connections", accepted)
        .part("of slow clients, closed by the server", slow)
        .part("of idle clients, closed by the server", idle)
        .part("of good clients, one after the other", good)
        .of_these("closed as the machine held them up", held_up, None)
        .expect("connections closed too early", books.closed_early.get(), 0)
        .expect("connections in use after being told to close", books.outlived.get(), 0)
        .expect("connections that ended", ended, accepted)
        .total("pieces of work started", started)
        .part("finished", finished)
        .part_expected("stopped by the request timeout", stopped, books.request_timeouts.fired())
        .total("timers armed in the wheel", stats.armed)
        .part("fired", stats.fired)
        .part("cancelled", stats.cancelled)
        .part_expected("pending at the end", u64::try_from(stats.pending)?, 0);
    let mut problems = ledger.print(
        "What it means: each limit cut off the clients that it is meant for, never too\n\
         early, and a request that timed out stopped its work.",
    );
    for (what, count) in [("requests", requests), ("slow clients", slow), ("idle clients", idle)] {
        if count == 0 {
            unless_too_busy(format!("no {what}: the run is too short to tell anything"));
        }
    }

    // The clients saw each close of the server, except good clients that were held up.
    let (heads, ages) = (books.head_timeouts.fired(), books.keep_alive_ends.fired());
    if heads > slow + idle + held_up {
        problems.push(format!(
            "{heads} heads timed out, but {slow} clients were slow, {idle} idle, {held_up} held up"
        ));
    }
    if slow + idle > heads + ages {
        problems
            .push(format!("{slow} slow and {idle} idle clients were cut off, but {heads} heads timed out"));
    }
    for (name, limit, _) in rows(books, limits) {
        if limit.fired() == 0 {
            unless_too_busy(format!("{name}: never reached, so the run is too short to tell anything"));
        }
        if limit.early.get() > 0 {
            problems.push(format!("{name}: {} times too early", limit.early.get()));
        }
    }
    Ok(problems)
}

/// A limit: its name, what came of it, and what it was set to.
fn rows(books: &Books, limits: Limits) -> [(&'static str, &Lateness, Duration); 3] {
    [
        ("slow head", &books.head_timeouts, limits.header_timeout),
        ("slow answer", &books.request_timeouts, limits.request_timeout),
        ("age", &books.keep_alive_ends, limits.keep_alive),
    ]
}

fn print_limits(books: &Books, limits: Limits) {
    let mut table = Table::new();
    let header = ["limit", "set to", "reached", "early", "late: half", "99 %", "all within"];
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for (name, limit, set_to) in rows(books, limits) {
        let mut row = vec![
            name.to_owned(),
            format!("{set_to:?}"),
            HumanCount(limit.fired()).to_string(),
            HumanCount(limit.early.get()).to_string(),
        ];
        row.extend(
            [0.5, 0.99, 1.0].map(|share| format!("{:.1} ms", limit.quantile(share).as_secs_f64() * 1e3)),
        );
        table.add_row(row);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n");
}
