//! How do I build a cache whose entries expire?
//!
//! `cargo run --release --example cache`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! An entry owns its timer, a `Sleep`: whoever reads the entry moves the deadline, and whoever drops it takes the
//! timer out of the wheel. No entry needs a task, because a timer wakes whatever it was polled with. Here that is a
//! `Waker` which names the entry's key to the one task that removes what has expired.
//!
//! Clients read, write and remove under load. Each has keys of its own, knows until when they live, and checks that
//! nothing is served after its time or lost before it. If something was, if the counts do not add up, or if a timer
//! is left at the end, the program says so and exits with 1.

use std::collections::{HashMap, hash_map};
use std::error::Error;
use std::hash::Hash;
use std::iter::repeat_with;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::{Sleep, TimingWheel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const CLIENTS: usize = 4;

/// A cache under load, whose entries expire when they are not used.
#[derive(Parser)]
#[command(name = "cache")]
struct Settings {
    /// How many keys there are
    #[arg(long, value_name = "NUMBER", default_value = "100000", value_parser = number(100..=2_000_000))]
    #[arg(default_value_if("short", "true", "20000"), allow_negative_numbers = true)]
    keys: usize,

    /// After how many milliseconds without use an entry expires; the load lasts five times as long
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = number(50..=60_000))]
    #[arg(default_value_if("short", "true", "300"), allow_negative_numbers = true)]
    ttl: usize,

    /// A quick look: fewer entries and shorter times, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

/// A cache of values that expire when they have not been used for their time to live.
struct Cache<K, V> {
    wheel: TimingWheel,
    state: Mutex<State<K, V>>,
    expired: UnboundedSender<K>,
}

struct State<K, V> {
    entries: HashMap<K, Entry<V>>,
    counts: Counts,
}

struct Entry<V> {
    value: V,
    time_to_live: Duration,
    timer: Sleep,
    /// What the timer wakes: a [`Bell`].
    waker: Waker,
}

/// Rings when an entry may have expired.
struct Bell<K> {
    key: K,
    expired: UnboundedSender<K>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    inserted: u64,
    replaced: u64,
    removed: u64,
    expired: u64,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static, V: Clone + Send + 'static> Cache<K, V> {
    fn new(wheel: TimingWheel) -> Arc<Self> {
        let (expired, keys) = unbounded_channel();
        let state = Mutex::new(State { entries: HashMap::new(), counts: Counts::default() });
        let cache = Arc::new(Self { wheel, state, expired });
        tokio::spawn(Self::remove_expired(Arc::downgrade(&cache), keys));
        cache
    }

    /// The value, unless it has expired. It lives on for its whole time from now.
    fn get(&self, key: &K) -> Option<V> {
        let State { entries, counts } = &mut *self.lock();
        let now = Instant::now();
        // An entry whose time is up may be waiting to be removed.
        let entry = entries.get_mut(key).filter(|entry| now < entry.timer.deadline());
        let Some(entry) = entry else {
            counts.misses += 1;
            return None;
        };
        counts.hits += 1;
        Pin::new(&mut entry.timer).reset(now + entry.time_to_live);
        Some(entry.value.clone())
    }

    /// Adds a value, in place of an earlier one. It is refused if the wheel has ended or takes no more timers.
    fn insert(&self, key: K, value: V, time_to_live: Duration) -> Result<(), timingwheel::Error> {
        let waker: Waker = Arc::new(Bell { key: key.clone(), expired: self.expired.clone() }).into();
        let mut entry = Entry { value, time_to_live, timer: self.wheel.sleep(time_to_live), waker };
        // The first poll registers the timer. Under the lock, so that the bell finds the entry in its place.
        let State { entries, counts } = &mut *self.lock();
        if let Poll::Ready(result) = entry.poll_expired() {
            result?;
            // It has no time to live, and no timer either.
            entry.waker.wake_by_ref();
        }
        counts.inserted += 1;
        counts.replaced += u64::from(entries.insert(key, entry).is_some());
        Ok(())
    }

    /// Removes an entry, and tells whether it was there.
    fn remove(&self, key: &K) -> bool {
        let State { entries, counts } = &mut *self.lock();
        let was_there = entries.remove(key).is_some();
        counts.removed += u64::from(was_there);
        was_there
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that removes what has expired. It ends with the cache.
    async fn remove_expired(cache: Weak<Self>, mut expired: UnboundedReceiver<K>) {
        while let Some(key) = expired.recv().await {
            let Some(cache) = cache.upgrade() else { return };
            let State { entries, counts } = &mut *cache.lock();
            // Since the bell rang the entry may have been removed, replaced, or read: then its timer goes on.
            if let hash_map::Entry::Occupied(mut entry) = entries.entry(key)
                && entry.get_mut().poll_expired().is_ready()
            {
                entry.remove();
                counts.expired += 1;
            }
        }
    }
}

impl<V> Entry<V> {
    fn poll_expired(&mut self) -> Poll<Result<(), timingwheel::Error>> {
        self.timer.poll_try_wait(&mut Context::from_waker(&self.waker))
    }
}

impl<K: Clone + Send + Sync> Wake for Bell<K> {
    fn wake(self: Arc<Self>) {
        // It fails only when the cache has gone.
        let _ = self.expired.send(self.key.clone());
    }
}

/// Uses all `keys` once, and then random ones until `end`, the first far more often than the last. Returns how many
/// entries were served after their time, and how many were lost before it.
async fn client(
    cache: Arc<Cache<usize, String>>,
    keys: Vec<usize>,
    time_to_live: Duration,
    end: Instant,
) -> Result<(u64, u64), timingwheel::Error> {
    let random = || fastrand::usize(..=fastrand::usize(..keys.len()));
    let mut places = (0..keys.len()).chain(repeat_with(random));
    // For each key the times between which its entry expires.
    let mut deadlines: Vec<Option<(Instant, Instant)>> = vec![None; keys.len()];
    let (mut served_late, mut lost) = (0, 0);
    while Instant::now() < end {
        for place in places.by_ref().take(200) {
            let (key, before) = (keys[place], Instant::now());
            if fastrand::u8(..) == 0 {
                cache.remove(&key);
                deadlines[place] = None;
                continue;
            }
            if cache.get(&key).is_some() {
                served_late += u64::from(deadlines[place].is_none_or(|(_, latest)| before >= latest));
            } else {
                lost += u64::from(deadlines[place].is_some_and(|(earliest, _)| Instant::now() < earliest));
                cache.insert(key, format!("value of {key}"), time_to_live)?;
            }
            deadlines[place] = Some((before + time_to_live, Instant::now() + time_to_live));
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok((served_late, lost))
}

/// Loads a cache, waits until it is empty, prints the closing table, and returns what does not add up.
async fn run(Settings { keys, ttl, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let time_to_live = Duration::from_millis(ttl as u64);
    let load = 5 * time_to_live;
    let count = HumanCount(keys as u64);
    println!(
        "{CLIENTS} clients use {count} keys for {load:?}. Unused for {time_to_live:?}, an entry expires.\n"
    );
    let style = ProgressStyle::with_template("{wide_bar} {msg} timers pending")?;
    let bar = ProgressBar::new((load + time_to_live).as_millis().try_into()?).with_style(style);

    let wheel = TimingWheel::new();
    let cache = Cache::new(wheel.clone());
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let own = (number..keys).step_by(CLIENTS).collect();
        clients.spawn(client(cache.clone(), own, time_to_live, start + load));
    }
    let (mut served_late, mut lost, mut most_pending) = (0, 0, 0);
    while !clients.is_empty() || (!cache.lock().entries.is_empty() && start.elapsed() < 3 * load) {
        while let Some(client) = clients.try_join_next() {
            let (client_served_late, client_lost) = client??;
            served_late += client_served_late;
            lost += client_lost;
        }
        most_pending = most_pending.max(wheel.pending() as u64);
        bar.set_message(HumanCount(wheel.pending() as u64).to_string());
        bar.set_position(start.elapsed().as_millis().try_into()?);
        sleep(Duration::from_millis(10)).await;
    }
    bar.finish_and_clear();

    let Counts { hits, misses, inserted, replaced, removed, expired } = cache.lock().counts;
    let (left, stats) = (cache.lock().entries.len() as u64, wheel.stats());
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "count", "expected"]);
    let mut problems = Vec::new();
    for (name, count, expected) in [
        ("hits", hits, None),
        ("- served after their time", served_late, Some(0)),
        ("misses", misses, None),
        ("- lost before their time", lost, Some(0)),
        ("entries written", inserted, Some(misses)),
        ("- replaced", replaced, None),
        ("- removed", removed, None),
        ("- expired", expired, Some(inserted - replaced - removed)),
        ("- left at the end", left, Some(0)),
        // An entry that is read at the very time at which it expires arms its timer again.
        ("timers armed", stats.armed, Some(inserted.max(stats.armed))),
        ("- most pending at a time", most_pending, None),
        ("- pending at the end", stats.pending as u64, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{name}: {count}, and not {expected}"));
        }
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
