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
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key as Deadline;
use tokio::time::Instant;

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

#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    load::main().await
}
