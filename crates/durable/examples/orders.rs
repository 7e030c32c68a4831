//! How do I cancel an order after 30 days, unless it is paid, though the process is killed again and again?
//!
//! `cargo run --release -p timingwheel-durable-programs --example orders -- --short`
//!
//! A shop takes orders. Each is stored with a timer under its number; payment cancels the timer; who has not paid after 30
//! days loses the order. The shop is a process of its own, and this program kills it, and starts it anew, all the time.
//! Time is sped up: `--day` says how long a day is. In the end each order has to be accounted for, or the program exits
//! with 1.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer::Done, Durable, Error as DurableError, Kind, RedbStore, Run};

#[derive(Parser)]
#[command(about = "Orders that are cancelled after 30 days, in a shop that is killed again and again")]
struct Settings {
    /// How many orders there are.
    #[arg(long, default_value_t = 3_000)]
    orders: u64,
    /// How often the shop is killed.
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// How many milliseconds a day lasts.
    #[arg(long, default_value_t = 20)]
    day: u64,
    /// Some seconds.
    #[arg(long)]
    short: bool,
    /// Is the shop, in this folder.
    #[arg(long, hide = true)]
    shop: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct CancelOrder {
    order: u64,
}

impl Kind for CancelOrder {
    const KIND: &'static str = "cancel-order";
}

/// What the shop has in its books: a line for each event. It stands for a database.
#[derive(Clone)]
struct Ledger(Arc<File>);

/// What happened to an order.
type Events = BTreeMap<u64, BTreeSet<String>>;

impl Ledger {
    fn open(folder: &Path) -> std::io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(folder.join("ledger"))?)))
    }

    /// One write, so that a kill leaves the whole line or nothing.
    fn write(&self, event: &str, order: u64) -> std::io::Result<()> {
        (&*self.0).write_all(format!("{event} {order}\n").as_bytes())
    }

    fn read(folder: &Path) -> Events {
        let mut events = Events::new();
        for line in fs::read_to_string(folder.join("ledger")).unwrap_or_default().lines() {
            if let Some((event, order)) = line.split_once(' ') {
                events.entry(order.parse().expect("a number")).or_default().insert(event.to_owned());
            }
        }
        events
    }
}

fn key(order: u64) -> String {
    format!("order-{order}")
}

/// The shop, until it is killed, or all orders have ended.
#[tokio::main]
async fn shop(settings: &Settings, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (wheel, ledger) = (TimingWheel::new(), Ledger::open(folder)?);
    let notes = ledger.clone();
    let handler = move |CancelOrder { order }, _: Run| {
        let notes = notes.clone();
        async move {
            notes.write("cancelled", order)?;
            Ok(Done)
        }
    };
    let durable =
        Durable::builder(&wheel, RedbStore::create(folder.join("timers.redb"))?).on(handler).start().await?;
    let (day, month) = (Duration::from_millis(settings.day), Duration::from_millis(30 * settings.day));

    // What the shop was about to do when it was killed.
    let events = Ledger::read(folder);
    for (&order, events) in &events {
        let has = |event: &str| events.contains(event);
        if has("placed") && !has("stored") && !has("cancelled") {
            place(&durable, &ledger, order, month).await?;
        }
        if has("paid") && !has("settled") {
            durable.cancel(key(order)).await?;
            ledger.write("settled", order)?;
        }
    }

    // A customer who is in the shop when it is killed comes again.
    let is_open = |order: &u64| {
        events.get(order).is_none_or(|events| !events.contains("paid") && !events.contains("cancelled"))
    };
    let customers: Vec<_> = (0_u32..)
        .zip((0..settings.orders).filter(is_open))
        .map(|(number, order)| {
            let (durable, ledger, wheel) = (durable.clone(), ledger.clone(), wheel.clone());
            let is_new = !events.contains_key(&order);
            tokio::spawn(async move {
                if is_new {
                    wheel.sleep(day * (number / 40)).await;
                    ledger.write("placed", order).expect("the ledger");
                    place(&durable, &ledger, order, month).await.expect("stored");
                }
                // Nine of ten pay, most of them in time.
                if order % 10 != 0 {
                    wheel.sleep(day.mul_f64(fastrand::f64().powi(2) * 31.0)).await;
                    ledger.write("paid", order).expect("the ledger");
                    durable.cancel(key(order)).await.expect("an answer");
                    ledger.write("settled", order).expect("the ledger");
                }
            })
        })
        .collect();
    for customer in customers {
        customer.await?;
    }
    while durable.count().await? != Default::default() {
        wheel.sleep(day).await;
    }
    durable.stop(Duration::from_secs(20)).await;
    Ok(())
}

async fn place(durable: &Durable, ledger: &Ledger, order: u64, due: Duration) -> Result<(), DurableError> {
    match durable.after(due, &CancelOrder { order }).key(key(order)).save().await {
        // It was stored before the shop was killed.
        Ok(_) | Err(DurableError::KeyTaken(_)) => {}
        Err(error) => return Err(error),
    }
    ledger.write("stored", order).expect("the ledger");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings::parse();
    if settings.short {
        (settings.orders, settings.kills, settings.day) = (300, 6, 10);
    }
    if let Some(folder) = settings.shop.clone() {
        return shop(&settings, &folder);
    }
    let folder = tempfile::tempdir()?;
    println!(
        "A day lasts {} ms; {} orders; the shop is killed {} times.",
        settings.day, settings.orders, settings.kills
    );
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--orders", &settings.orders.to_string(), "--day", &settings.day.to_string()]);
        command.arg("--shop").arg(folder.path()).stdin(Stdio::null()).spawn()
    };
    let style = ProgressStyle::with_template("{msg:18} {wide_bar} {pos:>5} of {len} orders")?;
    let bar = ProgressBar::new(settings.orders).with_style(style);
    let (mut kills, mut shop) = (0, start()?);
    let status = loop {
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..40 * settings.day)));
        bar.set_position(Ledger::read(folder.path()).len() as u64);
        bar.set_message(format!("killed {kills} times"));
        if let Some(status) = shop.try_wait()? {
            break status;
        }
        if kills < settings.kills {
            shop.kill()?;
            shop.wait()?;
            kills += 1;
            shop = start()?;
        }
    };
    bar.finish_and_clear();
    account(&settings, kills, status.success(), &Ledger::read(folder.path()))
}

/// Every order, once.
fn account(settings: &Settings, kills: usize, ended: bool, events: &Events) -> Result<(), Box<dyn Error>> {
    let count = |paid: bool, cancelled: bool| {
        let is_so = |events: &BTreeSet<String>| {
            (events.contains("paid"), events.contains("cancelled")) == (paid, cancelled)
        };
        events.values().filter(|events| is_so(events)).count() as u64
    };
    let rows = [
        ("paid in time", count(true, false)),
        ("cancelled after 30 days", count(false, true)),
        ("paid too late, to be refunded", count(true, true)),
        ("neither: lost", count(false, false)),
    ];
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["order", "count"]);
    for (name, count) in rows {
        table.add_row([name.to_owned(), count.to_string()]);
    }
    let sum: u64 = rows.iter().map(|(_, count)| count).sum();
    table.add_row(["all".to_owned(), sum.to_string()]);
    table.column_mut(1).expect("two columns").set_cell_alignment(CellAlignment::Right);
    println!("{table}\nThe shop was killed {kills} times.");
    let [_, (_, cancelled), _, (_, open)] = rows;
    if !ended || sum != settings.orders || open != 0 || cancelled == 0 {
        return Err(format!("ended: {ended}, {sum} of {} accounted for, {open} open", settings.orders).into());
    }
    println!("\nWhat it means: no order was lost, however often its program was killed.");
    Ok(())
}
