//! Runs the load, scrapes it, and reports figures that do not add up.

use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use hyper::StatusCode;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::install_exporter;
use crate::load::{Books, Load, TIMERS_EACH};
use crate::report;
use crate::scraper::{Scraper, Scrapes};
use crate::server::Server;
use crate::settings::{Bounds, Settings};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

const SCRAPE_EVERY: Duration = Duration::from_millis(250);
/// Timers that may be pending besides those of the load.
const SPARE: usize = 100;
const WHEEL_SIZE: usize = 64;

pub(crate) async fn main() -> ExitCode {
    crate::machine::watch();
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
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
    problems.extend(report::at_rest(&scrapes.last, &wheel.stats(), &books));
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
    problems.extend(report::print(&scrapes, &books));
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
        bar.set_message(report::line(&scrapes.last, &scrape));
        bar.inc(1);
        problems.extend(scrapes.add(scrape));
    }
    bar.finish_and_clear();
    Ok((scrapes, problems))
}
