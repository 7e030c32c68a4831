//! How do I deliver webhooks, with retries, and a list of dead letters that a person can look at?
//!
//! `cargo run --release -p timingwheel-durable-programs --example webhooks -- --short`
//!
//! Each delivery is a timer that is due at once. A receiver that fails is tried again, at growing distances; one that says
//! so itself is tried when it says; one that is gone for ever ends among the dead letters, with its errors. There a person
//! looks at them, and tries one again. Time is tokio's paused clock, so hours take a second. The program exits with 1 if
//! a delivery is not accounted for.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::{Page, State, Taken};
use timingwheel_durable::{Answer, Backoff, Durable, HandlerResult, Kind, RedbStore, Run};

#[derive(Parser)]
#[command(about = "Webhooks with retries and dead letters")]
struct Settings {
    /// How many deliveries there are.
    #[arg(long, default_value_t = 5_000)]
    deliveries: u64,
    /// Some seconds.
    #[arg(long)]
    short: bool,
}

#[derive(Serialize, Deserialize)]
struct Delivery {
    url: String,
    body: String,
}

impl Kind for Delivery {
    const KIND: &'static str = "delivery";
}

/// Requests that were sent.
static SENT: AtomicU64 = AtomicU64::new(0);
static GONE_IS_BACK: AtomicU64 = AtomicU64::new(0);

/// Stands for the HTTP client: receivers that fail as real ones do.
async fn deliver(Delivery { url, .. }: Delivery, run: Run) -> HandlerResult {
    SENT.fetch_add(1, Ordering::Relaxed);
    // A receiver that sees an id again has seen the delivery before.
    let _idempotency_key = run.id.to_string();
    match url.as_str() {
        "https://busy.example/hook" if run.attempt == 1 => Ok(Answer::Retry(Duration::from_secs(30))),
        "https://flaky.example/hook" if !run.attempt.is_multiple_of(3) => {
            Err("503 Service Unavailable".into())
        }
        "https://gone.example/hook" if GONE_IS_BACK.load(Ordering::Relaxed) == 0 => {
            Err("connection refused".into())
        }
        "https://moved.example/hook" => Ok(Answer::Bury("410 Gone".into())),
        _ => Ok(Answer::Done),
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::parse();
    if settings.short {
        settings.deliveries = 300;
    }
    let count = settings.deliveries;
    let folder = tempfile::tempdir()?;
    let wheel = TimingWheel::new();
    let backoff = Backoff::exponential(Duration::from_secs(5)..=Duration::from_secs(3600)).tries(8);
    let durable = Durable::builder(&wheel, RedbStore::create(folder.path().join("webhooks.redb"))?)
        .on(deliver)
        .retry::<Delivery>(backoff)
        .start()
        .await?;

    let hosts = ["fine", "fine", "fine", "fine", "busy", "flaky", "flaky", "gone", "moved", "fine"];
    let saves = (0..count).map(|number| {
        let host = hosts[usize::try_from(number % 10).expect("less than 10")];
        let delivery =
            Delivery { url: format!("https://{host}.example/hook"), body: format!("{{\"order\":{number}}}") };
        async { durable.at(durable.now(), &{ delivery }).save().await }
    });
    for saved in futures::future::join_all(saves).await {
        saved?;
    }
    let style = ProgressStyle::with_template("{msg:26} {wide_bar} {pos:>6} of {len} deliveries")?;
    let bar = ProgressBar::new(count).with_style(style);
    loop {
        let stats = durable.stats();
        bar.set_position(stats.done + stats.buried);
        bar.set_message(format!("{} to be tried again", stats.retried));
        if durable.count().await?.stored + durable.count().await?.begun == 0 {
            break;
        }
        wheel.sleep(Duration::from_secs(1)).await;
    }
    bar.finish_and_clear();

    // What a person looks at.
    let dead = durable.list(Page { buried: true, limit: usize::MAX, ..Page::default() }).await?;
    let mut letters = Table::new();
    letters.load_preset(ASCII_MARKDOWN).set_header(["dead letter", "tries", "why"]);
    for letter in dead.iter().take(4) {
        let State::Buried(why) = &letter.state else { continue };
        let delivery: Delivery = serde_json::from_slice(&letter.payload)?;
        letters.add_row([delivery.url, letter.attempts.to_string(), why.reason.clone()]);
    }
    println!("{letters}\n... and {} more.\n", dead.len().saturating_sub(4));

    // The receiver is back: its letters are tried again. The others are thrown away.
    GONE_IS_BACK.store(1, Ordering::Relaxed);
    let before = durable.stats();
    let (mut retried, mut deleted) = (0, 0);
    for letter in dead {
        let is_gone = serde_json::from_slice::<Delivery>(&letter.payload)?.url.contains("gone");
        let id = letter.timer.id();
        let taken = if is_gone { durable.retry_buried(id).await? } else { durable.delete_buried(id).await? };
        match taken {
            Taken::Stored(_) => retried += 1,
            Taken::Deleted => deleted += 1,
            Taken::KeyTaken(_) | Taken::NotFound => return Err(format!("{taken:?}").into()),
        }
    }
    while durable.count().await? != Default::default() {
        wheel.sleep(Duration::from_secs(1)).await;
    }
    let stats = durable.stats();
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["deliveries", "count"]);
    let rows = [
        ("delivered at first or by retries", before.done),
        ("dead letters that were tried again, and delivered", stats.done - before.done),
        ("dead letters that were thrown away", deleted),
        ("all", count),
        ("requests sent", SENT.load(Ordering::Relaxed)),
    ];
    for (name, count) in rows {
        table.add_row([name.to_owned(), count.to_string()]);
    }
    table.column_mut(1).expect("two columns").set_cell_alignment(CellAlignment::Right);
    println!("{table}");
    durable.stop(Duration::from_secs(20)).await;
    if stats.done + deleted != count || stats.done - before.done != retried || retried == 0 {
        return Err(format!("{} done, {deleted} deleted, of {count}", stats.done).into());
    }
    println!("\nWhat it means: each delivery arrived, or was thrown away by a person.");
    Ok(())
}
