//! The counts of a run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of server and clients.
#[derive(Debug, Default)]
pub(crate) struct Books {
    // The server's.
    pub(crate) connections: Gauge,
    pub(crate) idle_closed: Count,
    pub(crate) work_started: Count,
    pub(crate) work_finished: Count,
    pub(crate) work_stopped: Count,
    pub(crate) steps_after_timeout: Count,
    // The clients'.
    pub(crate) requests: Count,
    pub(crate) done: Count,
    pub(crate) timed_out: Count,
    /// The connection was closed instead.
    pub(crate) unanswered: Count,
    /// Requests that got done though their work takes longer than the request timeout.
    pub(crate) slow_done: Count,
    /// Requests that were cut off though their work takes less than the request timeout.
    pub(crate) quick_cut_off: Count,
    pub(crate) went_silent: Count,
    pub(crate) close_seen: Count,
    /// Connections that were closed before the idle timeout.
    pub(crate) closed_early: Count,
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

/// Counts what there is, and what there has been.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    begun: Count,
    ended: Count,
}

impl Gauge {
    pub(crate) fn hold(&self) -> Held<'_> {
        self.begun.add();
        Held(self)
    }

    pub(crate) fn total(&self) -> u64 {
        self.begun.get()
    }

    pub(crate) fn now(&self) -> u64 {
        // Ends are read before beginnings, so that they are not more.
        let ended = self.ended.get();
        self.begun.get().saturating_sub(ended)
    }
}

/// One of what a [`Gauge`] counts, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.ended.add();
    }
}
