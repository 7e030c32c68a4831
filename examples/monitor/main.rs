//! How do I watch a wheel in production?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example monitor`, or with `-- --help` for the settings
//! and `-- --short` for a quick look. To look at the page for people, give it time and a port: `-- --seconds 600 --port
//! 9000`.
//!
//! The functions below are all that a program needs; the rest is a load. Many tasks make calls with timeouts on a wheel with
//! a bound. A hyper server answers `/metrics` for Prometheus, `/health` for a load balancer, and `/`, a page for people. A
//! scraper asks for all three. At the end the wheel is filled until it refuses timers, and its health has to show that. If
//! a scrape does not add up (a counter went back, more or fewer timers were armed than fired, were cancelled and are
//! pending, the tasks counted others, the health is wrong) the program says so and exits with 1.

mod load;
mod server;

use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use indicatif::{HumanCount, HumanFloatCount, ProgressBar, ProgressStyle};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use timingwheel::metrics::{BUCKETS, WheelMetrics};
use timingwheel::monitor::{Limits, Unhealthy};
use timingwheel::{Stats, TimingWheel, metrics};
use timingwheel_examples::{Ledger, conclude, whole};
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::load::{Books, Load, Scrape, Scraper, Scrapes, TIMERS_EACH};
use crate::server::Server;

/// Prometheus's exporter, with buckets for the wheel's histograms. Call it once.
fn install_exporter() -> Result<PrometheusHandle, BuildError> {
    let histograms = Matcher::Prefix("timingwheel_".to_owned());
    let exporter =
        PrometheusBuilder::new().set_buckets_for_metric(histograms, &BUCKETS)?.install_recorder()?;
    metrics::describe();
    Ok(exporter)
}

/// The answer to Prometheus, which refuses it without its content type.
fn answer_prometheus(wheel: &WheelMetrics, exporter: &PrometheusHandle) -> Response<Full<Bytes>> {
    wheel.record();
    let mut response = Response::new(Full::from(exporter.render()));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// The answer to a load balancer: whether all went well since `earlier`, some seconds ago.
fn answer_health(wheel: &TimingWheel, earlier: &Stats, limits: &Limits) -> Response<Full<Bytes>> {
    let health = wheel.stats().since(earlier).check(limits);
    let mut response =
        Response::new(Full::from(health.as_ref().map_or_else(Unhealthy::to_string, |()| "healthy".into())));
    *response.status_mut() = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response
}

// The settings, and the limits of health.

/// A wheel under load that is watched: by Prometheus, a health check, and people.
#[derive(Clone, Copy, Parser)]
#[command(name = "monitor")]
struct Settings {
    /// How many tasks make calls, one after the other, from 1 to 100,000
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole(1..=100_000_usize))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    tasks: usize,

    /// How many seconds they go on, from 1 to 86,400
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = whole(1..=86_400_u64))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: u64,

    /// The port to serve on, from 0 to 65,535; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = whole(0..=65_535_u16))]
    #[arg(allow_negative_numbers = true)]
    port: u16,

    /// A quick look: fewer tasks and a shorter time, unless they are given
    #[arg(long)]
    short: bool,
}

/// The limits of this wheel's health, so generous that a busy machine keeps them.
#[derive(Clone, Copy)]
struct Bounds {
    pending: usize,
    lateness: Duration,
    overdue: Duration,
}

impl Bounds {
    const fn new(pending: usize) -> Self {
        Self { pending, lateness: Duration::from_millis(500), overdue: Duration::from_secs(1) }
    }

    fn limits(self) -> Limits {
        Limits {
            pending: Some(self.pending),
            lateness: vec![(0.99, self.lateness)],
            overdue: Some(self.overdue),
            refused: Some(0),
            wakers_panicked: Some(0),
            ..Limits::default()
        }
    }
}

// Runs the load, scrapes it, and reports figures that do not add up.

type BoxError = Box<dyn Error + Send + Sync>;

const SCRAPE_EVERY: Duration = Duration::from_millis(250);
/// Timers that may be pending besides those of the load.
const SPARE: usize = 100;
const WHEEL_SIZE: usize = 64;

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}

async fn run(Settings { tasks, seconds, port, .. }: Settings) -> Result<Vec<String>, BoxError> {
    let bounds = Bounds::new(TIMERS_EACH * tasks);
    let wheel = TimingWheel::builder()
        .name("calls")
        .wheel_size(WHEEL_SIZE)
        .max_pending(bounds.pending + SPARE)
        .build()?;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(|error| format!("cannot listen at {}:{port}: {error}", Ipv4Addr::LOCALHOST))?;
    let address = listener.local_addr()?;
    println!("{} tasks make calls for {seconds} s.", HumanCount(tasks as u64));
    println!("For people: http://{address}/, for Prometheus: /metrics, and /health\n");
    let server = Server::new(wheel.clone(), WHEEL_SIZE, install_exporter()?, bounds);
    tokio::spawn(server.run(listener));

    let books = Arc::new(Books::default());
    let load = Load { wheel: wheel.clone(), books: books.clone() };
    let until = Instant::now() + Duration::from_secs(seconds);
    let load = tokio::spawn(load.run(tasks, until));

    let scraper = Scraper::connect(address).await?;
    let (mut scrapes, mut problems) = watch(scraper, until).await?;
    load.await??;
    // At rest all has to add up.
    let mut scraper = Scraper::connect(address).await?;
    problems.extend(scrapes.add(scraper.scrape().await?));
    problems.extend(at_rest(&scrapes.last, &wheel.stats(), &books));
    let (status, words) = scraper.get("/health").await?;
    if status != StatusCode::OK {
        // A machine that stalls is no fault of this program: it is shown, but only what must not be is a problem.
        println!("After the load:");
        words.split([':', ';']).for_each(|words| println!("  {}", words.trim()));
    }

    let timers: Vec<_> = std::iter::from_fn(|| wheel.try_sleep(Duration::from_secs(3_600)).ok()).collect();
    let (status, words) = scraper.get("/health").await?;
    println!(
        "Filled with {} more timers, the wheel refuses the next: {}",
        HumanCount(timers.len() as u64),
        status.as_u16()
    );
    words.split([':', ';']).map(str::trim).for_each(|words| println!("  {words}"));
    println!();
    if status != StatusCode::SERVICE_UNAVAILABLE || !words.contains("1 timers were refused, the limit is 0") {
        problems.push(format!("a wheel that refuses timers is told to be in good health: {status}, {words}"));
    }
    problems.extend(print(&scrapes, &books));
    Ok(problems)
}

/// Scrapes until the time is up, and shows what it finds. Returns the scrapes, and what is wrong with them.
async fn watch(mut scraper: Scraper, until: Instant) -> Result<(Scrapes, Vec<String>), BoxError> {
    let style = ProgressStyle::with_template("{wide_bar} {msg}")?;
    let scrapes = until.saturating_duration_since(Instant::now()).as_millis() / SCRAPE_EVERY.as_millis();
    let bar = ProgressBar::new(u64::try_from(scrapes)?).with_style(style);
    let mut scrapes = Scrapes::new(scraper.scrape().await?);
    let mut problems = Vec::new();
    // On tokio's timers, so that the wheel has the load's only.
    let mut every = interval(SCRAPE_EVERY);
    while Instant::now() < until {
        every.tick().await;
        let scrape = scraper.scrape().await?;
        bar.set_message(line(&scrapes.last, &scrape));
        bar.inc(1);
        problems.extend(scrapes.add(scrape));
    }
    bar.finish_and_clear();
    Ok((scrapes, problems))
}

// The figures of the scrapes, and whether they add up.

/// A count of a scrape, which is whole and not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters of what happened in minutes"
)]
const fn count(value: f64) -> u64 {
    value as u64
}

fn duration(seconds: Option<f64>) -> Duration {
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// For the progress bar: how it stands, and what was since the last scrape.
fn line(last: &Scrape, now: &Scrape) -> String {
    format!(
        "{} pending, {} fired, 99 % within {:.1} ms",
        HumanFloatCount(now.value("pending")),
        HumanFloatCount(now.value("fired_total")),
        duration(now.quantile_since(last, "lateness_seconds", 0.99)).as_secs_f64() * 1e3,
    )
}

/// Counts that do not add up in the last scrape, when no timer is left.
fn at_rest(last: &Scrape, stats: &Stats, books: &Books) -> Vec<String> {
    let [armed, fired, cancelled] =
        ["armed_total", "fired_total", "cancelled_total"].map(|name| last.value(name));
    let pending = last.value("pending");
    let [late, late_by] = ["lateness_seconds_count", "lateness_seconds_sum"].map(|name| last.value(name));
    let most_timers = books.most_timers() as f64;
    let mut problems = Vec::new();
    let mut expect = |holds: bool, words: String| {
        if !holds {
            problems.push(words);
        }
    };
    expect(last.value("up") == 1.0, "the wheel is not up".to_owned());
    expect(pending == 0.0, format!("{pending} timers are left"));
    expect(last.pending_on_levels() == 0.0, "timers are left on a level".to_owned());
    expect(
        (armed, fired, cancelled) == (stats.armed as f64, stats.fired as f64, stats.cancelled as f64),
        format!("what was scraped is not what the wheel counts: {stats:?}"),
    );
    // Each call ends with one of its two timers, unless that was due before it was polled.
    expect(
        books.calls() > 0 && armed <= most_timers,
        format!("{armed} timers were armed, and {most_timers} made at the most"),
    );
    let seconds_late = stats.lateness.quantile(1.0).unwrap_or_default().as_secs_f64() * late;
    expect(
        late == stats.lateness.count() as f64 && late_by > 0.0 && late_by <= seconds_late,
        format!("{late} timers were scraped as late by {late_by} s together, the wheel tells {stats:?}"),
    );
    problems
}

/// Prints the closing table, and returns what does not add up.
fn print(scrapes: &Scrapes, books: &Books) -> Vec<String> {
    let Scrapes { first, last, number, most_pending } = scrapes;
    let mut ledger = Ledger::new("scraped");
    ledger
        .total("calls", books.calls())
        .part("answered", books.answered.get())
        .part("timed out", books.timed_out.get())
        .total("timers armed", count(last.value("armed_total")))
        .part("fired", count(last.value("fired_total")))
        .part("cancelled", count(last.value("cancelled_total")))
        .part_expected("pending at the end", count(last.value("pending")), 0)
        .total("most timers pending in one scrape", count(*most_pending))
        .total("moves of a timer to a finer level", count(last.value("cascaded_total")))
        .total("turns of the wheel", count(last.value("turns_total")))
        .of_these("late by more than 10 ms", count(last.value("stalls_total")), None)
        .total("scrapes", *number)
        .lateness("timers late", |share| duration(last.quantile_since(first, "lateness_seconds", share)));
    ledger.print(
        "What it means: the scrapes agree with the load. Each timer that was armed has\n\
         fired or was cancelled.",
    )
}
