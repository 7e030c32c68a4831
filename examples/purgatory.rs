//! How do I answer a request when others have done their part, or when its time is up?
//!
//! `cargo run --release --example purgatory`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! A broker in this process has partitions, each with a log and two followers that copy it. Producers write to some
//! partitions at a time and want to know when all followers have what they wrote. So a write waits in a `Purgatory`,
//! under the keys of its partitions, and each fetch of a follower checks the key of the partition that it has copied.
//! For half of the time one follower does not get on with some partitions: writes to these expire. In the middle of
//! that one of them moves to another broker, which cancels what waits for it.
//!
//! Everybody keeps books. If those do not agree (a write was acknowledged that a follower has not, one expired early or
//! without need, one was never answered, something is left in the purgatory) the program says so and exits with 1.

use std::error::Error;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::purgatory::WatchError;
use timingwheel::{Purgatory, TimingWheel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const FOLLOWERS: usize = 2;
/// With one in so many partitions, from the first, the last follower does not get on.
const LAGGING: usize = 10;
const FETCH_EVERY: Duration = Duration::from_millis(5);

/// A broker whose writes are acknowledged when all followers have them.
#[derive(Parser)]
#[command(name = "purgatory")]
struct Settings {
    /// How many partitions there are; one in ten lags for half of the time
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = number(10..=10_000))]
    #[arg(allow_negative_numbers = true)]
    partitions: u64,

    /// How many producers there are, each with one write at a time
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = number(10..=100_000))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    producers: u64,

    /// After how many milliseconds a write expires; the load lasts eight times as long
    #[arg(long, value_name = "MS", default_value = "500", value_parser = number(50..=60_000))]
    #[arg(default_value_if("short", "true", "150"), allow_negative_numbers = true)]
    timeout: u64,

    /// A quick look: fewer producers and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

/// How many records the leader has, and how many of them each follower.
#[derive(Default)]
struct Partition {
    log_end: AtomicU64,
    copied: [AtomicU64; FOLLOWERS],
}

struct Broker {
    partitions: Vec<Partition>,
    purgatory: Purgatory<usize>,
    timeout: Duration,
    /// How many writes were completed by the checks of followers.
    completed: AtomicU64,
}

impl Broker {
    fn is_lagging(partition: usize) -> bool {
        partition.is_multiple_of(LAGGING)
    }

    /// Whether all followers have what was written.
    fn has_copies(&self, written: &[(usize, u64)]) -> bool {
        let is_copied = |&(partition, offset): &(usize, u64)| {
            self.partitions[partition].copied.iter().all(|copied| copied.load(Ordering::Acquire) >= offset)
        };
        written.iter().all(is_copied)
    }

    /// Writes a record to each of `partitions`, and waits until all followers have them.
    async fn write(self: &Arc<Self>, partitions: Vec<usize>) -> Result<Vec<(usize, u64)>, WatchError> {
        let append = |partition: usize| {
            (partition, self.partitions[partition].log_end.fetch_add(1, Ordering::AcqRel) + 1)
        };
        let written: Vec<_> = partitions.iter().map(|&partition| append(partition)).collect();
        let (broker, records) = (self.clone(), written.clone());
        let acknowledged =
            self.purgatory.watch(partitions, self.timeout, move || broker.has_copies(&records).then_some(()));
        acknowledged.await.map(|()| written)
    }

    /// Copies what is new in a partition.
    fn fetch(&self, follower: usize, partition: usize) {
        let Partition { log_end, copied } = &self.partitions[partition];
        let end = log_end.load(Ordering::Acquire);
        if copied[follower].swap(end, Ordering::AcqRel) < end {
            let completed = self.purgatory.check(&partition);
            self.completed.fetch_add(completed as u64, Ordering::Relaxed);
        }
    }
}

/// Fetches all partitions again and again, until `end` and until no write waits; the last follower leaves those that
/// lag for half of the time. Returns the longest time from one round to the next.
async fn follow(broker: Arc<Broker>, follower: usize, start: Instant, end: Instant) -> Duration {
    let (from, to) = (start + (end - start) / 4, start + (end - start) / 4 * 3);
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    loop {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
        let is_stuck = follower == FOLLOWERS - 1 && (from..to).contains(&now);
        (0..broker.partitions.len())
            .filter(|&partition| !(is_stuck && Broker::is_lagging(partition)))
            .for_each(|partition| broker.fetch(follower, partition));
        if now >= end && broker.purgatory.delayed() == 0 {
            return longest;
        }
        sleep(FETCH_EVERY).await;
    }
}

/// What a producer saw.
#[derive(Default)]
struct Books {
    acknowledged: u64,
    /// Of those, what a follower has not.
    too_soon: u64,
    cancelled: u64,
    /// Writes that expired before their time, and those to partitions that never lagged.
    early: u64,
    needless: u64,
    /// How late the others were.
    late: Vec<Duration>,
}

/// Writes to one to three partitions at a time, until `end`.
async fn produce(broker: Arc<Broker>, end: Instant) -> Result<Books, WatchError> {
    let mut books = Books::default();
    while Instant::now() < end {
        let partitions: Vec<_> =
            (0..fastrand::usize(1..=3)).map(|_| fastrand::usize(..broker.partitions.len())).collect();
        let lags = partitions.iter().any(|&partition| Broker::is_lagging(partition));
        let start = Instant::now();
        match broker.write(partitions).await {
            Ok(written) => {
                books.acknowledged += 1;
                books.too_soon += u64::from(!broker.has_copies(&written));
            }
            Err(WatchError::Expired) => match start.elapsed().checked_sub(broker.timeout) {
                _ if !lags => books.needless += 1,
                Some(late) => books.late.push(late),
                None => books.early += 1,
            },
            Err(WatchError::Cancelled) => books.cancelled += 1,
            Err(error) => return Err(error),
        }
        sleep(FETCH_EVERY.mul_f64(fastrand::f64())).await;
    }
    Ok(books)
}

/// Lets producers and followers run, and returns what does not add up.
async fn run(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { partitions, producers, timeout, short: _ } = settings;
    let timeout = Duration::from_millis(timeout);
    let length = 8 * timeout;
    println!(
        "{} producers write to {} partitions for {length:?}. A write expires after {timeout:?}.\n",
        HumanCount(producers),
        HumanCount(partitions)
    );
    let wheel = TimingWheel::new();
    let broker = Arc::new(Broker {
        partitions: (0..partitions).map(|_| Partition::default()).collect(),
        purgatory: wheel.purgatory(),
        timeout,
        completed: AtomicU64::new(0),
    });
    let start = Instant::now();
    let end = start + length;
    let mut followers = JoinSet::new();
    (0..FOLLOWERS).for_each(|follower| _ = followers.spawn(follow(broker.clone(), follower, start, end)));
    let mut writes = JoinSet::new();
    (0..producers).for_each(|_| _ = writes.spawn(produce(broker.clone(), end)));

    let style = ProgressStyle::with_template("{wide_bar} {msg} writes wait")?;
    let bar = ProgressBar::new(length.as_millis().try_into()?).with_style(style);
    let (mut cancelled, mut most) = (None, 0);
    while Instant::now() < end {
        let waiting = broker.purgatory.delayed();
        most = most.max(waiting as u64);
        bar.set_message(HumanCount(waiting as u64).to_string());
        bar.set_position(start.elapsed().as_millis().try_into()?);
        if cancelled.is_none() && start.elapsed() > length / 2 {
            cancelled = Some(broker.purgatory.cancel(&0) as u64);
        }
        sleep(Duration::from_millis(10)).await;
    }
    let mut all = Books::default();
    for books in writes.join_all().await {
        let Books { acknowledged, too_soon, cancelled, early, needless, late } = books?;
        all.acknowledged += acknowledged;
        all.too_soon += too_soon;
        all.cancelled += cancelled;
        all.early += early;
        all.needless += needless;
        all.late.extend(late);
    }
    let longest_gap = followers.join_all().await.into_iter().max().unwrap_or_default();
    bar.finish_and_clear();
    report(&all, &broker, &wheel, (cancelled.unwrap_or_default(), most, longest_gap))
}

/// Prints the closing table, and returns what does not add up.
fn report(
    books: &Books,
    broker: &Broker,
    wheel: &TimingWheel,
    (cancelled, most, longest_gap): (u64, u64, Duration),
) -> Result<Vec<String>, Box<dyn Error>> {
    let Books { acknowledged, too_soon, cancelled: told, early, needless, late } = books;
    let expired = late.len() as u64 + early + needless;
    let completed = broker.completed.load(Ordering::Relaxed);
    // A machine that kept the followers from fetching for so long let other writes expire too.
    let was_held_up = longest_gap > broker.timeout / 2;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "seen", "expected"]);
    let mut problems = Vec::new();
    for (name, count, expected) in [
        ("writes", acknowledged + expired + told, None),
        ("- acknowledged", *acknowledged, Some((*acknowledged).max(1))),
        ("  - without all copies", *too_soon, Some(0)),
        ("  - by the checks of followers", completed, Some(completed.min(*acknowledged))),
        ("- expired", expired, Some(expired.max(1))),
        ("  - too early", *early, Some(0)),
        ("  - though no follower lagged", *needless, Some(if was_held_up { *needless } else { 0 })),
        // One that is just being tried is cancelled after that, and not counted by who cancels.
        ("- cancelled", *told, Some((*told).max(cancelled))),
        ("most that waited at a time", most, None),
        ("places left in lists", broker.purgatory.watched() as u64, Some(0)),
        ("timers left in the wheel", wheel.pending() as u64, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{}: {count}, and not {expected}", name.trim_start_matches([' ', '-'])));
        }
    }
    let mut lateness = Histogram::<u64>::new(3)?;
    for late in late {
        lateness.record(u64::try_from(late.as_nanos())?)?;
    }
    for (name, quantile) in
        [("lateness, half within", 0.5), ("lateness, 99 % within", 0.99), ("lateness, most", 1.0)]
    {
        let late = Duration::from_nanos(lateness.value_at_quantile(quantile));
        table.add_row([name.into(), format!("{:.3} ms", late.as_secs_f64() * 1e3)]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
