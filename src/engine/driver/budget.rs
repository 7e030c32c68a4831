//! How much one turn may do before other tasks run: 16 batches of up to 256 timers, or a millisecond.

use std::time::{Duration, Instant};

use crate::platform::clock::stopwatch;

/// How many entries are handed out or moved under one hold of a shard's lock. So a hold takes some 10 µs.
pub(super) const BATCH: usize = 256;

/// How much a turn may do before other tasks run, and what it has done.
#[derive(Debug)]
pub(super) struct Budget {
    batches: usize,
    /// `None` while the clock is paused: then nothing may depend on how long the turn takes.
    until: Option<Instant>,
    has_begun: bool,
    /// How many timers the turn has handed out.
    pub(super) fired: usize,
}

impl Budget {
    const BATCHES: usize = 16;
    const TIME: Duration = Duration::from_millis(1);

    pub(super) fn of_a_turn(paused: bool) -> Self {
        let until = (!paused).then(|| stopwatch() + Self::TIME);
        Self { batches: Self::BATCHES, until, has_begun: false, fired: 0 }
    }

    /// Takes one batch, and returns whether the turn may do it. The first one it may always do.
    pub(super) fn take_batch(&mut self) -> bool {
        let has_time = self.until.is_none_or(|until| !self.has_begun || stopwatch() < until);
        self.has_begun = true;
        let has_batch = self.batches > 0;
        self.batches = self.batches.saturating_sub(1);
        has_batch && has_time
    }
}
