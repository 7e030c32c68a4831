//! The bound on pending timers. All shards of a wheel share one bound.

use crate::error::Error;
use crate::platform::sync::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Bound {
    max_pending: usize,
    taken: AtomicUsize,
}

impl Bound {
    pub(crate) fn new(max_pending: usize) -> Self {
        Self { max_pending, taken: AtomicUsize::new(0) }
    }

    pub(crate) const fn max_pending(&self) -> usize {
        self.max_pending
    }

    /// Takes a permit for one timer.
    pub(crate) fn take(&self) -> Result<(), Error> {
        // Relaxed: the count guards no other memory.
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < self.max_pending).then_some(taken + 1)
            })
            .map(drop)
            .map_err(|_| Error::full(self.max_pending))
    }

    /// Gives permits back: once for each timer that is no longer pending.
    pub(crate) fn give_back(&self, permits: usize) {
        self.taken.fetch_sub(permits, Ordering::Relaxed);
    }
}
