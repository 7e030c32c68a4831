//! Timers under observation: how many there are, and how late they fire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::runtime::worker_index;
use tokio::time::Instant;

use crate::books::{Gauge, Held};
use crate::timers::{Sleep, Timers};

/// A greater lateness counts as this.
const LATEST: Duration = Duration::from_secs(60);
/// How many digits of a lateness are kept.
const DIGITS: u8 = 3;

/// Timers that count themselves and note how late they fire.
#[derive(Clone)]
pub(crate) struct Watched<T> {
    timers: T,
    watch: Arc<Watch>,
}

struct Watch {
    held: Gauge,
    /// One for each worker, so that they do not wait for each other.
    fired: Box<[Mutex<Lateness>]>,
}

/// How late timers fired.
#[derive(Clone)]
pub(crate) struct Lateness {
    nanos: Histogram<u64>,
    /// How many fired before their deadline.
    pub(crate) early: u64,
}

impl<T: Timers> Watched<T> {
    pub(crate) fn new(timers: T, workers: usize) -> Self {
        let fired = (0..workers).map(|_| Mutex::new(Lateness::none())).collect();
        Self { timers, watch: Arc::new(Watch { held: Gauge::default(), fired }) }
    }

    /// The timers themselves.
    pub(crate) fn timers(&self) -> &T {
        &self.timers
    }

    /// Timers that the program holds, and has held.
    pub(crate) fn held(&self) -> &Gauge {
        &self.watch.held
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        let (sleep, _held) = self.start(duration);
        let deadline = sleep.deadline();
        sleep.await;
        self.note(deadline);
    }

    /// The output of `work`, or `None` if it took longer than `limit` and was dropped.
    pub(crate) async fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        work: F,
    ) -> Option<F::Output> {
        let (deadline, call) = self.timers.timeout(limit, work);
        let _held = self.watch.held.hold();
        let result = call.await;
        if result.is_none() {
            self.note(deadline);
        }
        result
    }

    /// A timer for the caller to move and to await, with what counts it. The caller has to [`note`](Self::note)
    /// that it fired.
    pub(crate) fn start(&self, duration: Duration) -> (T::Sleep, Held<'_>) {
        (self.timers.sleep(duration), self.watch.held.hold())
    }

    /// Notes that a timer for `deadline` has fired now.
    pub(crate) fn note(&self, deadline: Instant) {
        let late = Instant::now().checked_duration_since(deadline);
        let shards = &self.watch.fired;
        let mut shard = lock(&shards[worker_index().unwrap_or_default() % shards.len()]);
        match late {
            // Saturating because the histogram has a latest anyway.
            Some(late) => {
                shard.nanos.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
            }
            None => shard.early += 1,
        }
    }

    /// How late all timers so far have fired.
    pub(crate) fn lateness(&self) -> Lateness {
        let mut all = Lateness::none();
        for shard in &self.watch.fired {
            let shard = lock(shard);
            all.nanos.add(&shard.nanos).expect("all have the same limits");
            all.early += shard.early;
        }
        all
    }
}

fn lock(shard: &Mutex<Lateness>) -> MutexGuard<'_, Lateness> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lateness {
    fn none() -> Self {
        let latest = u64::try_from(LATEST.as_nanos()).expect("a minute in nanoseconds");
        Self {
            nanos: Histogram::new_with_max(latest, DIGITS).expect("a range and digits that it takes"),
            early: 0,
        }
    }

    /// How many fired.
    pub(crate) fn fired(&self) -> u64 {
        self.nanos.len() + self.early
    }

    /// The lateness that a share of the timers stayed within.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.nanos.value_at_quantile(share))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.nanos.max())
    }
}
