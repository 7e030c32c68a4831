//! What the handle and the runner share.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::error::Error;
use crate::stats::Stats;

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    /// By how many microseconds the store's clock is ahead of that, if timers are due by the store's.
    offset_us: AtomicI64,
    stats: Mutex<Stats>,
    /// Nothing more is saved.
    is_stopped: AtomicBool,
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            offset_us: AtomicI64::new(0),
            stats: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// The time by which timers are due.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(self.offset()).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn offset(&self) -> SignedDuration {
        SignedDuration::from_micros(self.offset_us.load(Ordering::Relaxed))
    }

    pub(crate) fn set_offset(&self, offset: SignedDuration) {
        let micros = i64::try_from(offset.as_micros()).unwrap_or(0);
        self.offset_us.store(micros, Ordering::Relaxed);
        self.stats().clock_offset = offset;
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
