//! How do I answer a request when others have done their part, or when its time is up?
//!
//! `cargo run --release -p timingwheel-examples --example purgatory`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A broker in this process has partitions, each with a log and two followers that copy it. A producer writes to some
//! partitions, and gets its answer when all followers have copied the write. So a write waits in a `Purgatory`, under the
//! keys of its partitions, and each fetch of a follower checks the key of the partition that it has copied.
//!
//! `Broker` is all that a program needs; the rest is a load. For half of the time one follower stands still in some
//! partitions, and writes to these expire. Meanwhile one of these partitions moves to another broker, which cancels its
//! waiting writes. Broker, producers and followers keep books. If these do not agree (a follower lacks an acknowledged
//! write, one expired early or without need, one was never answered, one is left in the purgatory) the program says so and
//! exits with 1.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel_examples::{Ledger, conclude, unless_too_busy, whole};
use timingwheel_purgatory::{Purgatory, WatchError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const FOLLOWERS: usize = 2;

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
}

impl Broker {
    /// Writes a record to each of `partitions`, and waits until all followers have them.
    async fn write(self: &Arc<Self>, partitions: Vec<usize>) -> Result<Vec<(usize, u64)>, WatchError> {
        let append = |&partition: &usize| {
            (partition, self.partitions[partition].log_end.fetch_add(1, Ordering::AcqRel) + 1)
        };
        let written: Vec<_> = partitions.iter().map(append).collect();
        let (broker, records) = (self.clone(), written.clone());
        let has_copies = move || broker.has_copies(&records).then_some(());
        self.purgatory.watch(partitions, self.timeout, has_copies).await.map(|()| written)
    }

    /// Copies what is new in a partition. Returns how many writes that completed.
    fn fetch(&self, follower: usize, partition: usize) -> usize {
        let Partition { log_end, copied } = &self.partitions[partition];
        let end = log_end.load(Ordering::Acquire);
        if copied[follower].swap(end, Ordering::AcqRel) < end { self.purgatory.check(&partition) } else { 0 }
    }

    /// Whether all followers have what was written.
    fn has_copies(&self, written: &[(usize, u64)]) -> bool {
        let is_copied = |&(partition, offset): &(usize, u64)| {
            self.partitions[partition].copied.iter().all(|copied| copied.load(Ordering::Acquire) >= offset)
        };
        written.iter().all(is_copied)
    }
}

// Producers and followers, and their books.

/// With one in so many partitions, from the first, the last follower does not get on.
const LAGGING: usize = 10;
const FETCH_EVERY: Duration = Duration::from_millis(5);
/// After the end. Each write expires long before.
const LAST_ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A broker whose writes are acknowledged when all followers have them.
#[derive(Parser)]
#[command(name = "purgatory")]
struct Settings {
    /// How many partitions there are, from 10 to 10,000; one in ten lags for half of the time
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = whole(10..=10_000_u64))]
    #[arg(allow_negative_numbers = true)]
    partitions: u64,

    /// How many producers there are, from 10 to 100,000, each with one write at a time
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole(10..=100_000_u64))]
    #[arg(default_value_if("short", "true", "500"), allow_negative_numbers = true)]
    producers: u64,

    /// After how many milliseconds a write expires, from 50 to 60,000; the load lasts eight times as long
    #[arg(long, value_name = "MS", default_value = "500", value_parser = whole(50..=60_000_u64))]
    #[arg(default_value_if("short", "true", "150"), allow_negative_numbers = true)]
    timeout: u64,

    /// A quick look: fewer producers and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

fn is_lagging(partition: usize) -> bool {
    partition.is_multiple_of(LAGGING)
}

/// Fetches all partitions again and again, until `end` and until no write waits; the last follower leaves those that
/// lag for half of the time. Returns the longest time from one round to the next, and how many writes it completed.
async fn follow(broker: Arc<Broker>, follower: usize, start: Instant, end: Instant) -> (Duration, u64) {
    let (from, to) = (start + (end - start) / 4, start + (end - start) / 4 * 3);
    let (mut longest, mut last, mut completed) = (Duration::ZERO, Instant::now(), 0);
    loop {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
        let is_stuck = follower == FOLLOWERS - 1 && (from..to).contains(&now);
        completed += (0..broker.partitions.len())
            .filter(|&partition| !(is_stuck && is_lagging(partition)))
            .map(|partition| broker.fetch(follower, partition) as u64)
            .sum::<u64>();
        if now >= end && broker.purgatory.delayed() == 0 {
            return (longest, completed);
        }
        sleep(FETCH_EVERY).await;
    }
}

/// A producer's counts.
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
        let lags = partitions.iter().any(|&partition| is_lagging(partition));
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
        "{} producers write to {} partitions for {length:?}.",
        HumanCount(producers),
        HumanCount(partitions)
    );
    println!("A write expires after {timeout:?}.\n");
    let wheel = TimingWheel::new();
    let broker = Arc::new(Broker {
        partitions: (0..partitions).map(|_| Partition::default()).collect(),
        purgatory: Purgatory::new(&wheel),
        timeout,
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
    let answered = tokio::time::timeout(LAST_ANSWER_WITHIN, writes.join_all()).await;
    for books in answered.map_err(|_| "a write was never answered")? {
        let Books { acknowledged, too_soon, cancelled, early, needless, late } = books?;
        all.acknowledged += acknowledged;
        all.too_soon += too_soon;
        all.cancelled += cancelled;
        all.early += early;
        all.needless += needless;
        all.late.extend(late);
    }
    let followed = followers.join_all().await;
    bar.finish_and_clear();
    report(&all, &broker, &wheel, &Seen { followed, cancelled: cancelled.unwrap_or_default(), most })
}

/// Counts from outside.
struct Seen {
    /// By each follower: its longest gap, and how many writes it completed.
    followed: Vec<(Duration, u64)>,
    /// How many operations the purgatory said that it cancelled.
    cancelled: u64,
    /// How many waited at one time.
    most: u64,
}

/// Prints the closing table, and returns what does not add up.
fn report(
    books: &Books,
    broker: &Broker,
    wheel: &TimingWheel,
    seen: &Seen,
) -> Result<Vec<String>, Box<dyn Error>> {
    let Books { acknowledged, too_soon, cancelled, early, needless, late } = books;
    let expired = late.len() as u64 + early + needless;
    let by_fetches = seen.followed.iter().map(|(_, completed)| completed).sum::<u64>();
    let completed = by_fetches.min(*acknowledged);
    // A machine that kept the followers from fetching for so long let other writes expire too.
    let was_held_up = seen.followed.iter().any(|(gap, _)| *gap > broker.timeout / 2);
    let mut lateness = Histogram::<u64>::new(3)?;
    for late in late {
        lateness.record(u64::try_from(late.as_nanos())?)?;
    }
    let mut ledger = Ledger::new("seen");
    ledger
        .total("writes", acknowledged + expired + cancelled)
        .part("acknowledged, completed by a follower's fetch", completed)
        .part("acknowledged, all copies being there at once", acknowledged - completed)
        .part_expected("expired", expired, expired.max(1))
        // One that is just being tried is cancelled after that, and not counted by who cancels.
        .part_expected("cancelled", *cancelled, (*cancelled).max(seen.cancelled))
        .expect("writes completed more than once", by_fetches - completed, 0)
        .expect("writes acknowledged without all copies", *too_soon, 0)
        .expect("writes expired too early", *early, 0)
        .expect("writes expired with no follower lagging", *needless, if was_held_up { *needless } else { 0 })
        .total("most writes that waited at one time", seen.most)
        .expect("places left in the lists of keys", broker.purgatory.watched() as u64, 0)
        .expect("timers left in the wheel", wheel.pending() as u64, 0)
        .lateness("writes expired late", |share| Duration::from_nanos(lateness.value_at_quantile(share)));
    let problems = ledger.print(
        "What it means: each write was acknowledged, expired or cancelled, and no more\n\
         than once. Nothing of it is left in the lists of keys or in the wheel.",
    );
    if *acknowledged == 0 {
        unless_too_busy("no write was acknowledged".into());
    }
    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}
