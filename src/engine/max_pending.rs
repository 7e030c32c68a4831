//! The bound on pending timers.

use crate::error::Error;
use crate::platform::sync::{AtomicUsize, Ordering};

/// How many timers may be pending in all shards of a wheel. Relaxed: the count guards no other memory.
#[derive(Debug)]
pub(crate) struct MaxPending {
    max_pending: usize,
    taken: AtomicUsize,
}

impl MaxPending {
    pub(crate) fn new(max_pending: usize) -> Self {
        Self { max_pending, taken: AtomicUsize::new(0) }
    }

    /// How many permits are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a permit for one timer.
    pub(crate) fn take(&self) -> Result<(), Error> {
        let more = |taken| (taken < self.max_pending).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map(drop).map_err(|_| Error::full(self.max_pending))
    }

    /// Gives permits back: one for each timer that is no longer pending.
    pub(crate) fn give_back(&self, permits: usize) {
        self.taken.fetch_sub(permits, Ordering::Relaxed);
    }
}
