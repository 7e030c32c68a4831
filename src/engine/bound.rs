//! The bound on pending timers. All shards of a wheel share one bound.

use std::collections::HashSet;
use std::task::Waker;

use crate::error::Error;
use crate::platform::sync::{AtomicUsize, Mutex, Ordering, lock};

#[derive(Debug)]
pub(crate) struct Bound {
    max_pending: usize,
    taken: AtomicUsize,
    /// The data addresses of wakers whose timers keep their permit when they fire.
    keepers: Mutex<HashSet<usize>>,
}

impl Bound {
    pub(crate) fn new(max_pending: usize) -> Self {
        Self { max_pending, taken: AtomicUsize::new(0), keepers: Mutex::default() }
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

    /// From now on, timers whose waker has its data at `address` keep their permit when they fire. Their owner gives the
    /// permit back. Call [`forget`](Self::forget) when there is no such waker any more.
    pub(crate) fn keep(&self, address: usize) {
        lock(&self.keepers).insert(address);
    }

    /// Ends what [`keep`](Self::keep) began.
    pub(crate) fn forget(&self, address: usize) {
        lock(&self.keepers).remove(&address);
    }

    /// How many permits become free when the timers of these wakers fire.
    pub(crate) fn left_by(&self, fired: &[Waker]) -> usize {
        let keepers = lock(&self.keepers);
        if keepers.is_empty() {
            return fired.len();
        }
        fired.iter().filter(|waker| !keepers.contains(&waker.data().addr())).count()
    }
}
