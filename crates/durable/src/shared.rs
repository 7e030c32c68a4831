//! What the handle and the runner share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::error::Error;
use crate::events::Events;
use crate::stats::Stats;

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Events,
    stats: Mutex<Stats>,
    /// Nothing more is saved.
    is_stopped: AtomicBool,
    /// Another owner has followed.
    is_lost: AtomicBool,
    /// How many cancels are under way.
    cancels: AtomicUsize,
}

/// A cancel that is under way.
pub(crate) struct Cancelling<'a>(&'a AtomicUsize);

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            events: Events::new(),
            stats: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            cancels: AtomicUsize::new(0),
        }
    }

    /// Held for a few counts, and never while user code runs.
    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, error: &Error) {
        let errors = {
            let mut stats = self.stats();
            stats.store_errors += 1;
            stats.store_errors
        };
        self.events.failed(error, errors);
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Until the guard is dropped.
    pub(crate) fn cancelling(&self) -> Cancelling<'_> {
        self.cancels.fetch_add(1, Ordering::AcqRel);
        Cancelling(&self.cancels)
    }

    pub(crate) fn cancels(&self) -> usize {
        self.cancels.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}
