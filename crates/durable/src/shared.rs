//! What the handle and the runner share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::error::Error;
use crate::stats::Stats;

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    stats: Mutex<Stats>,
    /// Nothing more is saved.
    is_stopped: AtomicBool,
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, stats: Mutex::default(), is_stopped: AtomicBool::new(false) }
    }

    /// Held for a few counts, and never while user code runs.
    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, _error: &Error) {
        self.stats().store_errors += 1;
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}
