//! When a stream was last used.

use super::direction::Direction;
use crate::platform::sync::{AtomicU64, Ordering};
use crate::wheel::Nanos;

/// Written by a guard, read by whoever asks it when the stream is idle.
#[derive(Debug)]
pub(super) struct LastUse {
    last: [AtomicU64; 2],
}

impl LastUse {
    pub(super) fn new(now: Nanos) -> Self {
        Self { last: [AtomicU64::new(now.0), AtomicU64::new(now.0)] }
    }

    // Relaxed: the time is all there is to see.
    pub(super) fn note(&self, direction: Direction, now: Nanos) {
        self.last[direction.index()].store(now.0, Ordering::Relaxed);
    }

    pub(super) fn last(&self, direction: Direction) -> Nanos {
        Nanos(self.last[direction.index()].load(Ordering::Relaxed))
    }
}
