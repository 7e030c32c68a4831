//! What failed, who runs what, and how do I try it again? A tool for the terminal, to be copied into a team's own.
//!
//! ```text
//! cargo run -p timingwheel-durable-programs --features postgres --example inspect -- postgres://app@localhost/shop count
//! cargo run … -- shop.redb list --phase buried --kind cancel-order
//! cargo run … -- shop.redb show order-42
//! cargo run … -- shop.redb retry --phase buried --kind cancel-order --limit 1000
//! cargo run … -- shop.redb cancel --phase buried --older 30d
//! cargo run … -- postgres://app@localhost/shop pause cancel-order
//! cargo run … -- postgres://app@localhost/shop keep cancel-order 7d
//! cargo run … -- postgres://app@localhost/shop list --phase cancelled --newer 1d
//! ```
//!
//! It has no handlers, so it runs no timers. One process at a time has a file: the program that has it must have stopped.

use std::error::Error;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use jiff::{Timestamp, Zoned};
use timingwheel::TimingWheel;
use timingwheel_durable::{Act, Durable, Filter, Phase, PostgresStore, RedbStore, Shown, TimerId, Which};

#[derive(Parser)]
#[command(about = "Looks at durable timers, and acts on them")]
struct Settings {
    /// The path of a file, or the address of a database as `postgres://…`.
    store: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// How many timers there are, by kind and phase.
    Count,
    /// A line for each timer.
    List(Wanted),
    /// All about the timers of an id or a key.
    Show { id_or_key: String },
    /// Runs timers now, buried ones too.
    Retry(Wanted),
    /// Moves timers to an instant, as 2030-01-31T09:00:00Z.
    Move {
        to: Timestamp,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Cancels timers, and deletes buried ones.
    Cancel(Wanted),
    /// Begins no more timers of a kind.
    Pause { kind: String },
    /// Begins timers of a kind again.
    Resume { kind: String },
    /// Keeps ended timers of a kind for so long, as 7d. 0d: no longer.
    Keep { kind: String, age: jiff::Span },
}

/// Which timers.
#[derive(Args)]
struct Wanted {
    /// The timer of this id or key.
    #[arg(long)]
    only: Option<String>,
    /// waiting, retrying, due, paused, unhandled, running, buried, damaged; done, cancelled, replaced, skipped, failed
    #[arg(long)]
    phase: Option<Phase>,
    #[arg(long)]
    kind: Option<String>,
    /// The beginning of their keys.
    #[arg(long)]
    prefix: Option<String>,
    /// Due, or buried, longer ago than this, as 30d or 12h.
    #[arg(long)]
    older: Option<jiff::Span>,
    /// Not as long ago.
    #[arg(long)]
    newer: Option<jiff::Span>,
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

fn which(text: &str) -> Which {
    text.parse::<TimerId>().map_or_else(|_| Which::from(text), Which::from)
}

impl Wanted {
    fn filter(self) -> Result<Filter, Box<dyn Error>> {
        let mut filter = self.only.map_or_else(Filter::new, |text| Filter::only(which(&text)));
        filter = filter.limit(self.limit);
        if let Some(phase) = self.phase {
            filter = filter.phase(phase);
        }
        if let Some(kind) = self.kind {
            filter = filter.kind(kind);
        }
        if let Some(prefix) = self.prefix {
            filter = filter.key_prefix(prefix);
        }
        if let Some(older) = self.older {
            filter = filter.before(Zoned::now().checked_sub(older)?.timestamp());
        }
        if let Some(newer) = self.newer {
            filter = filter.from(Zoned::now().checked_sub(newer)?.timestamp());
        }
        Ok(filter)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Settings { store, command } = Settings::parse();
    let wheel = TimingWheel::new();
    let durable = if store.contains("://") {
        Durable::builder(&wheel, PostgresStore::connect(&store).await?).start().await?
    } else {
        Durable::builder(&wheel, RedbStore::open(&store)?).start().await?
    };
    let done = obey(&durable, command).await;
    durable.stop(Duration::from_secs(10)).await;
    done
}

async fn obey(durable: &Durable, command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Count => count(durable).await?,
        Command::List(wanted) => list(durable, wanted).await?,
        Command::Show { id_or_key } => {
            let found = durable.look(Filter::only(which(&id_or_key))).await?.timers;
            found.iter().for_each(show);
            if found.is_empty() {
                return Err(format!("no timer has the id or the key {id_or_key:?}").into());
            }
        }
        Command::Retry(wanted) => act(durable, wanted, Act::RunNow).await?,
        Command::Move { to, wanted } => act(durable, wanted, Act::MoveTo(to)).await?,
        Command::Cancel(wanted) => act(durable, wanted, Act::Cancel).await?,
        Command::Pause { kind } => durable.pause(kind).await?,
        Command::Resume { kind } => durable.resume(kind).await?,
        Command::Keep { kind, age } => {
            let now = Zoned::now();
            durable.keep_history(kind, now.duration_until(&now.checked_add(age)?).try_into()?).await?;
        }
    }
    let paused = durable.paused().await?;
    if !paused.is_empty() {
        println!("paused: {}", paused.into_iter().collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

async fn count(durable: &Durable) -> Result<(), Box<dyn Error>> {
    let tally = durable.tally().await?;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["kind", "phase", "timers"]);
    for ((kind, phase), count) in &tally.counts {
        table.add_row([kind.clone(), phase.to_string(), count.to_string()]);
    }
    println!("{table}{}", if tally.is_estimate { "\nestimated" } else { "" });
    Ok(())
}

async fn list(durable: &Durable, wanted: Wanted) -> Result<(), Box<dyn Error>> {
    let (mut left, mut next) = (wanted.limit, Some(wanted.filter()?));
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header([
        "id",
        "phase",
        "kind",
        "key",
        "due",
        "tries",
        "last error",
    ]);
    while let Some(filter) = next.take_if(|_| left > 0) {
        let page = durable.look(filter.limit(left)).await?;
        left -= page.timers.len().min(left);
        for Shown { timer, phase, .. } in &page.timers {
            let error = timer.failures.last().map(|failure| failure.error.clone());
            table.add_row([
                timer.timer.id().to_string(),
                phase.to_string(),
                timer.kind.clone(),
                timer.key.clone().unwrap_or_default(),
                timer.timer.due().to_string(),
                timer.attempts.to_string(),
                error.unwrap_or_default(),
            ]);
        }
        next = page.next;
    }
    println!("{table}{}", if next.is_some() { "\nthere are more" } else { "" });
    Ok(())
}

fn show(shown: &Shown) {
    let Shown { timer, phase, instance, damage, .. } = shown;
    let at = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.to_string());
    println!("{} {} {phase}, due {}", timer.timer.id(), timer.kind, timer.timer.due());
    println!(
        "  made {}, begun {}, buried {}, ended {}",
        at(timer.times.made),
        at(timer.times.begun),
        at(timer.times.buried),
        at(timer.times.ended)
    );
    println!("  {} attempts, {} of them crashed", timer.attempts, timer.crashes);
    for (what, text) in [("key", &timer.key), ("runs or ran on", instance), ("damage", damage)] {
        text.iter().for_each(|text| println!("  {what} {text}"));
    }
    timer.series.iter().for_each(|series| println!("  series {}", series.rule));
    println!("  payload {}", String::from_utf8_lossy(&timer.payload));
    for failure in &timer.failures {
        println!("  attempt {} failed at {}: {}", failure.attempt, at(failure.at), failure.error);
    }
}

async fn act(durable: &Durable, wanted: Wanted, act: Act) -> Result<(), Box<dyn Error>> {
    let acted = durable.act(wanted.filter()?, act).await?;
    println!("{} done, {} have begun, {} keys are taken", acted.done, acted.running, acted.key_taken);
    if acted.locked > 0 {
        println!("{} are held by open transactions: try again", acted.locked);
    }
    if acted.next.is_some() {
        println!("there are more");
    }
    Ok(())
}
