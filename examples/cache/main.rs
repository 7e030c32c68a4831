//! How do I build a cache whose entries expire?
//!
//! `cargo run --release -p timingwheel-examples --example cache`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! The deadlines of all entries are in one `DelayQueue`. A read moves its entry's deadline, a removal takes it out, and one
//! task removes expired entries. The wheel has one timer for all entries together.
//!
//! `Cache` is all that a program needs; the rest is a load. Clients read, write and remove. Each has keys of its own, and
//! checks that none is served after its time or lost before it. If one was, if the counts do not add up, or if a timer is
//! left at the end, the program says so and exits with 1.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::hash::Hash;
use std::iter::repeat_with;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key as Deadline;
use timingwheel_examples::{Ledger, conclude, whole};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// A cache of values that expire when they have not been used for their time to live.
struct Cache<K, V> {
    time_to_live: Duration,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    values: HashMap<K, (V, Deadline)>,
    deadlines: DelayQueue<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// The value, unless it has expired. It lives on for its whole time from now.
    fn get(&self, key: &K) -> Option<V> {
        let Entries { values, deadlines } = &mut *self.lock();
        // An expired entry may still wait to be removed.
        let is_alive = |(_, deadline): &&(V, Deadline)| Instant::now() < deadlines.deadline(deadline);
        let (value, deadline) = values.get(key).filter(is_alive)?;
        deadlines.reset(deadline, self.time_to_live);
        Some(value.clone())
    }

    /// Adds a value, and returns the one that it replaces.
    fn insert(&self, key: K, value: V) -> Option<V> {
        let Entries { values, deadlines } = &mut *self.lock();
        let deadline = deadlines.insert(key.clone(), self.time_to_live);
        let (replaced, deadline) = values.insert(key, (value, deadline))?;
        deadlines.remove(&deadline);
        Some(replaced)
    }

    fn remove(&self, key: &K) -> Option<V> {
        let Entries { values, deadlines } = &mut *self.lock();
        let (removed, deadline) = values.remove(key)?;
        deadlines.remove(&deadline);
        Some(removed)
    }

    /// Removes what has expired. It never ends: give it a task.
    async fn remove_expired(&self) -> Infallible {
        poll_fn(|cx| {
            let Entries { values, deadlines } = &mut *self.lock();
            while let Some(expired) = ready!(deadlines.poll_expired(cx)) {
                values.remove(expired.get_ref());
            }
            // Empty: the next insertion wakes this task.
            Poll::Pending
        })
        .await
    }

    fn new(wheel: &TimingWheel, time_to_live: Duration) -> Self {
        let entries = Entries { values: HashMap::new(), deadlines: wheel.delay_queue() };
        Self { time_to_live, entries: Mutex::new(entries) }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Clients that use a cache, and check its answers.

const CLIENTS: usize = 4;

/// A cache under load, whose entries expire when they are not used.
#[derive(Parser)]
#[command(name = "cache")]
struct Settings {
    /// How many keys there are, from 100 to 2,000,000
    #[arg(long, value_name = "NUMBER", default_value = "100000", value_parser = whole(100..=2_000_000_usize))]
    #[arg(default_value_if("short", "true", "20000"), allow_negative_numbers = true)]
    keys: usize,

    /// After how many milliseconds without use an entry expires, from 50 to 60,000; the load lasts five times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = whole(50..=60_000_u64))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    ttl: u64,

    /// A quick look: fewer entries and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

/// The clients' counts.
#[derive(Clone, Copy, Default)]
struct Books {
    hits: u64,
    served_late: u64,
    misses: u64,
    lost: u64,
    written: u64,
    replaced: u64,
    removed: u64,
    /// Of the misses those of keys that had been written, and the keys that were left to expire at the end.
    expired: u64,
}

impl AddAssign for Books {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.served_late += other.served_late;
        self.misses += other.misses;
        self.lost += other.lost;
        self.written += other.written;
        self.replaced += other.replaced;
        self.removed += other.removed;
        self.expired += other.expired;
    }
}

/// Uses all `keys` once, and then random ones until `end`, the first far more often than the last.
async fn client(cache: Arc<Cache<usize, String>>, keys: Vec<usize>, end: Instant) -> Books {
    let random = || fastrand::usize(..=fastrand::usize(..keys.len()));
    let mut places = (0..keys.len()).chain(repeat_with(random));
    // For each key the times between which its entry expires.
    let mut deadlines: Vec<Option<(Instant, Instant)>> = vec![None; keys.len()];
    let mut books = Books::default();
    while Instant::now() < end {
        for place in places.by_ref().take(200) {
            let (key, before) = (keys[place], Instant::now());
            let known = deadlines[place];
            if fastrand::u8(..) == 0 {
                let is_removed = cache.remove(&key).is_some();
                books.removed += u64::from(is_removed);
                books.expired += u64::from(known.is_some() && !is_removed);
                deadlines[place] = None;
                continue;
            }
            if cache.get(&key).is_some() {
                books.hits += 1;
                books.served_late += u64::from(known.is_none_or(|(_, latest)| before >= latest));
            } else {
                books.misses += 1;
                books.lost += u64::from(known.is_some_and(|(earliest, _)| Instant::now() < earliest));
                books.written += 1;
                let is_replaced = cache.insert(key, format!("value of {key}")).is_some();
                books.replaced += u64::from(is_replaced);
                books.expired += u64::from(known.is_some() && !is_replaced);
            }
            deadlines[place] = Some((before + cache.time_to_live, Instant::now() + cache.time_to_live));
        }
        sleep(Duration::from_millis(1)).await;
    }
    books.expired += deadlines.iter().flatten().count() as u64;
    books
}

/// Loads a cache, waits until it is empty, prints the closing table, and returns what does not add up.
async fn run(Settings { keys, ttl, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let time_to_live = Duration::from_millis(ttl);
    let load = 5 * time_to_live;
    let count = HumanCount(keys as u64);
    println!(
        "{CLIENTS} clients use {count} keys for {load:?}.\nAn entry expires after {time_to_live:?} without use.\n"
    );
    let style = ProgressStyle::with_template("{wide_bar} {msg} entries")?;
    let bar = ProgressBar::new((load + time_to_live).as_millis().try_into()?).with_style(style);

    let wheel = TimingWheel::new();
    let cache = Arc::new(Cache::new(&wheel, time_to_live));
    let removes = cache.clone();
    let removes = tokio::spawn(async move { removes.remove_expired().await });
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let own = (number..keys).step_by(CLIENTS).collect();
        clients.spawn(client(cache.clone(), own, start + load));
    }
    let entries = || cache.lock().values.len();
    let (mut books, mut most_entries, mut most_timers) = (Books::default(), 0, 0);
    while !clients.is_empty() || (entries() > 0 && start.elapsed() < 3 * load) {
        while let Some(client) = clients.try_join_next() {
            books += client?;
        }
        most_entries = most_entries.max(entries());
        most_timers = most_timers.max(wheel.pending());
        bar.set_message(HumanCount(entries() as u64).to_string());
        bar.set_position(start.elapsed().as_millis().try_into()?);
        sleep(Duration::from_millis(10)).await;
    }
    bar.finish_and_clear();
    let (left, deadlines) = (entries() as u64, cache.lock().deadlines.len() as u64);
    removes.abort();

    let Books { hits, served_late, misses, lost, written, replaced, removed, expired } = books;
    let mut ledger = Ledger::new("count");
    ledger
        .total("reads", hits + misses)
        .part("hits", hits)
        .of_these("served after their time", served_late, Some(0))
        .part("misses", misses)
        .of_these("lost before their time", lost, Some(0))
        .total("entries written, one for each miss", written)
        .part("expired", expired - left)
        .part("replaced between expiry and removal", replaced)
        .part("removed by a client", removed)
        .part_expected("left at the end", left, 0)
        .total("most entries at one time", most_entries as u64)
        .expect("deadlines left in the queue", deadlines, 0)
        .expect("most timers in the wheel at one time", most_timers as u64, most_timers.min(1) as u64)
        .expect("timers left in the wheel", wheel.pending() as u64, 0);
    Ok(ledger.print(
        "What it means: no entry was served after its time or lost before it, and the\n\
         wheel saw one timer for all entries together.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}
