//! How do I build a cache whose entries expire?
//!
//! `cargo run --release -p timingwheel-examples --example cache`
//!
//! The deadlines of all entries are in one `DelayQueue`. A read moves its entry's deadline, a removal takes it out, and one
//! task removes what has expired. The wheel has one timer for all entries together. `Cache` is the code to copy.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key as Deadline;
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
    fn new(wheel: &TimingWheel, time_to_live: Duration) -> Self {
        let entries = Entries { values: HashMap::new(), deadlines: wheel.delay_queue() };
        Self { time_to_live, entries: Mutex::new(entries) }
    }

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

    fn len(&self) -> usize {
        self.lock().values.len()
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

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tokio::main]
async fn main() {
    let wheel = TimingWheel::new();
    let cache = Arc::new(Cache::new(&wheel, Duration::from_secs(1)));
    let expiry = cache.clone();
    tokio::spawn(async move { expiry.remove_expired().await });

    let entries = 100_000;
    for number in 0..entries {
        cache.insert(number, format!("value {number}"));
    }
    assert_eq!(cache.remove(&7).as_deref(), Some("value 7"));
    let timers = wheel.pending();
    println!("{} entries, {timers} timer in the wheel", cache.len());

    // One entry is read again and again, so it stays, and all others go.
    while cache.len() > 1 {
        assert_eq!(cache.get(&1).as_deref(), Some("value 1"), "an entry in use was lost");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cache.get(&2), None, "an entry outlived its time");
    assert_eq!(timers, 1, "all entries share a timer");
    println!("What it means: an entry in use stays, others expire, and one timer is enough.");
}
