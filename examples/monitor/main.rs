//! How do I watch a wheel in production?
//!
//! `cargo run --release --all-features --example monitor`, or with `-- --help` for the settings and `-- --short` for a
//! quick look.
//!
//! Many tasks make calls with timeouts on a wheel with a bound. A hyper server beside them answers `/metrics`, for
//! Prometheus, and `/health`, by limits for what happened since it was asked last. A scraper asks for both over HTTP as
//! Prometheus would; while the program runs you can do so too, with curl. At the end the wheel is filled until it
//! refuses timers, which its health has to tell. If a scrape does not add up (a counter went back, the timers that were
//! armed are not those that fired, were cancelled or are pending, the tasks counted otherwise, the health is wrong) the
//! program says so and exits with 1.

mod load;
mod report;
mod scraper;
mod server;

use std::error::Error;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use hyper::StatusCode;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use metrics_exporter_prometheus::PrometheusBuilder;
use timingwheel::{TimingWheel, metrics};
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use load::{Books, Load};
use scraper::{Scrape, Scraper};
use server::Server;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

const SCRAPE_EVERY: Duration = Duration::from_millis(250);
/// Timers that may be pending besides those of the load.
const SPARE: usize = 100;

/// A wheel under load that is scraped as Prometheus does it.
#[derive(Parser)]
#[command(name = "monitor")]
struct Settings {
    /// How many tasks make calls, one after the other, with two timers each
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = number(1..=1_000_000))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    tasks: u64,

    /// For how many seconds they go on
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = number(1..=86_400))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: u64,

    /// The port to serve on; 0 takes any that is free
    #[arg(long, value_name = "PORT", default_value = "0", value_parser = number(0..=65_535))]
    #[arg(allow_negative_numbers = true)]
    port: u64,

    /// A quick look: fewer tasks and a shorter time, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a whole number from {} to {}", limits.start(), limits.end()))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lets the load run, scrapes it, and returns what does not add up.
async fn run(Settings { tasks, seconds, port, short: _ }: Settings) -> Result<Vec<String>, BoxError> {
    let tasks = usize::try_from(tasks)?;
    let exporter = PrometheusBuilder::new().install_recorder()?;
    metrics::describe();
    let wheel = TimingWheel::builder().name("calls").max_pending(2 * tasks + SPARE).build()?;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, u16::try_from(port)?)).await?;
    let address = listener.local_addr()?;
    println!("{} tasks for {seconds} s; http://{address}/metrics and /health\n", HumanCount(tasks as u64));
    let server = Server::new(wheel.clone(), exporter, tasks);
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
    scrapes.push(scraper.scrape().await?);
    problems.extend(report::at_rest(&scrapes, &wheel.stats(), &books));
    let (status, words) = scraper.get("/health").await?;
    if status != StatusCode::OK {
        // A machine that stalls is no fault of this program: it is shown, but only what must not be is a problem.
        println!("After the load: {words}");
    }

    let timers: Vec<_> = std::iter::from_fn(|| wheel.try_sleep(Duration::from_secs(3_600)).ok()).collect();
    let (status, words) = scraper.get("/health").await?;
    println!("With {} more timers: {status}, {words}\n", HumanCount(timers.len() as u64));
    if status != StatusCode::SERVICE_UNAVAILABLE || !words.contains("1 timers were refused, the limit is 0") {
        problems.push(format!("a wheel that refuses timers is told to be in good health: {status}, {words}"));
    }
    report::print(&scrapes, &books);
    Ok(problems)
}

/// Scrapes until the time is up, and shows what it finds. Returns the scrapes, and what is wrong with them.
async fn watch(mut scraper: Scraper, until: Instant) -> Result<(Vec<Scrape>, Vec<String>), BoxError> {
    let style = ProgressStyle::with_template("{wide_bar} {msg}")?;
    let scrapes = until.saturating_duration_since(Instant::now()).as_millis() / SCRAPE_EVERY.as_millis();
    let bar = ProgressBar::new(u64::try_from(scrapes)?).with_style(style);
    let mut scrapes = vec![scraper.scrape().await?];
    let mut problems = Vec::new();
    // On tokio's timers, so that the wheel has the load's only.
    let mut every = interval(SCRAPE_EVERY);
    while Instant::now() < until {
        every.tick().await;
        let scrape = scraper.scrape().await?;
        let last = scrapes.last().ok_or("there is a first scrape")?;
        problems.extend(scrape.problems_after(last));
        bar.set_message(report::line(last, &scrape));
        bar.inc(1);
        scrapes.push(scrape);
    }
    bar.finish_and_clear();
    Ok((scrapes, problems))
}
