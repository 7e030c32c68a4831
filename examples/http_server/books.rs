//! The counts of server and clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::HumanCount;
use tokio::time::Instant;

/// A greater lateness counts as this.
const LATEST: Duration = Duration::from_secs(60);
/// How many digits of a lateness are kept.
const DIGITS: u8 = 3;

#[derive(Debug, Default)]
pub(crate) struct Books {
    // The server's.
    pub(crate) accepted: Count,
    pub(crate) ended: Count,
    pub(crate) head_timeouts: Limit,
    pub(crate) request_timeouts: Limit,
    pub(crate) keep_alive_ends: Limit,
    /// Connections on which requests went on after they were told to close.
    pub(crate) outlived: Count,
    pub(crate) work_started: Count,
    pub(crate) work_finished: Count,
    pub(crate) work_stopped: Count,
    // The clients'.
    pub(crate) requests: Count,
    pub(crate) done: Count,
    pub(crate) timed_out: Count,
    /// The server closed the connection as the request was on its way, so it went over another one.
    pub(crate) asked_again: Count,
    /// Requests that got done though their work takes longer than they may.
    pub(crate) slow_done: Count,
    /// Requests that were cut off though their work takes less.
    pub(crate) quick_cut_off: Count,
    /// Good connections that the machine let wait for longer than a head may take, so the server closed them.
    pub(crate) held_up: Count,
    /// Connections of slow clients that were closed.
    pub(crate) slow_closed: Count,
    /// Connections of idle clients that were closed.
    pub(crate) idle_closed: Count,
    /// Connections of both kinds that were closed before the header timeout.
    pub(crate) closed_early: Count,
}

impl Books {
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} requests, {} timed out, {} slow, {} idle",
            HumanCount(self.requests.get()),
            HumanCount(self.timed_out.get()),
            HumanCount(self.slow_closed.get()),
            HumanCount(self.idle_closed.get())
        )
    }
}

/// Counts up. Relaxed throughout: while the run is on it is for show, and at the end all tasks have been joined.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often a limit was reached, and how late.
#[derive(Debug)]
pub(crate) struct Limit {
    early: Count,
    late: Mutex<Histogram<u64>>,
}

impl Default for Limit {
    fn default() -> Self {
        let latest = u64::try_from(LATEST.as_nanos()).expect("a minute in nanoseconds");
        let late = Histogram::new_with_max(latest, DIGITS).expect("a range and digits that it takes");
        Self { early: Count::default(), late: Mutex::new(late) }
    }
}

impl Limit {
    /// Notes that what was due at `deadline` has happened now.
    pub(crate) fn note(&self, deadline: Instant) {
        match Instant::now().checked_duration_since(deadline) {
            None => self.early.add(),
            // Saturating because the histogram has a latest anyway.
            Some(late) => self.lock().saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX)),
        }
    }

    pub(crate) fn early(&self) -> u64 {
        self.early.get()
    }

    pub(crate) fn reached(&self) -> u64 {
        self.early() + self.lock().len()
    }

    /// The lateness that a share of the times stayed within.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.lock().value_at_quantile(share))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Histogram<u64>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
