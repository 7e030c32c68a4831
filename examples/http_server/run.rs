//! Runs server and clients, or only the server.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use timingwheel::TimingWheel;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};
use tower::BoxError;

use crate::books::Books;
use crate::client::{Client, Kind};
use crate::files::{raise_limit, raise_limit_for};
use crate::server::Server;
use crate::settings::Settings;
use crate::{report, serve};

/// If a run takes longer than its settings say, and by more than this, it counts as stuck.
const GRACE: Duration = Duration::from_secs(30);
const SHOW_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn main() -> ExitCode {
    crate::machine::watch();
    let settings = Settings::parse().checked();
    let ended = match settings.serve {
        Some(address) => only_serve(address, &settings).map(|()| Vec::new()),
        None => run(&settings),
    };
    let problems = ended.unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
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
    report::print(&books, limits, &wheel.stats())
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
