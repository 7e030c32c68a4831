//! The counts of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::runtime::worker_index;
use tokio::time::Instant;

/// A greater lateness counts as this.
const LATEST: Duration = Duration::from_secs(60);
/// How many digits of a lateness are kept.
const DIGITS: u8 = 3;

/// The tasks' counts.
pub(crate) struct Books {
    pub(crate) slept: Count,
    pub(crate) in_time: Count,
    pub(crate) timed_out: Count,
    pub(crate) moved: Count,
    pub(crate) dropped_elsewhere: Count,
    pub(crate) ticks: Count,
    pub(crate) read: Count,
    pub(crate) cut_off: Count,
    pub(crate) items: Count,
    pub(crate) gaps: Count,
    pub(crate) storms: Count,
    pub(crate) wheels: Count,
    pub(crate) stalls: Count,
    /// Of all kinds, those that were ready before their deadline.
    pub(crate) early: Count,
    /// One for each worker, so that they do not wait for each other.
    late_by: Box<[Mutex<Histogram<u64>>]>,
}

/// Counts up. Relaxed: it is read for show, and when all tasks have been joined.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn new_histogram() -> Histogram<u64> {
    let latest = u64::try_from(LATEST.as_nanos()).expect("a minute in nanoseconds");
    Histogram::new_with_max(latest, DIGITS).expect("a range and digits that it takes")
}

impl Books {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            slept: Count::default(),
            in_time: Count::default(),
            timed_out: Count::default(),
            moved: Count::default(),
            dropped_elsewhere: Count::default(),
            ticks: Count::default(),
            read: Count::default(),
            cut_off: Count::default(),
            items: Count::default(),
            gaps: Count::default(),
            storms: Count::default(),
            wheels: Count::default(),
            stalls: Count::default(),
            early: Count::default(),
            late_by: (0..workers).map(|_| Mutex::new(new_histogram())).collect(),
        }
    }

    /// The tasks' operations, by their names in the table.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 13] {
        let Self { slept, in_time, timed_out, moved, dropped_elsewhere, ticks, .. } = self;
        let Self { read, cut_off, items, gaps, storms, wheels, stalls, .. } = self;
        [
            ("sleeps", slept),
            ("calls in time", in_time),
            ("calls that timed out", timed_out),
            ("deadlines moved", moved),
            ("timers dropped by another task", dropped_elsewhere),
            ("ticks of intervals", ticks),
            ("reads of guarded connections that came", read),
            ("reads of guarded connections cut off", cut_off),
            ("items of streams that came", items),
            ("streams ended by a gap", gaps),
            ("storms of 50,000 timers", storms),
            ("wheels made and dropped", wheels),
            ("workers stalled", stalls),
        ]
        .map(|(what, count)| (what, count.get()))
    }

    /// Notes that what was due at `deadline` has come.
    pub(crate) fn note(&self, deadline: Instant) {
        let Some(late) = Instant::now().checked_duration_since(deadline) else {
            self.early.add();
            return;
        };
        let shard = &self.late_by[worker_index().unwrap_or_default() % self.late_by.len()];
        // Saturating because the histogram has a latest anyway.
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        shard.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
    }

    /// How late all timers so far have been.
    pub(crate) fn lateness(&self) -> Histogram<u64> {
        let mut all = new_histogram();
        for shard in &self.late_by {
            all.add(&*shard.lock().unwrap_or_else(PoisonError::into_inner)).expect("of the same limits");
        }
        all
    }
}
