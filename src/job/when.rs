//! When a job is due, beside the time at which that was asked: one look at the clock for each job.

use std::time::Duration;

use tokio::time::Instant;

use crate::timing_wheel::TimingWheel;
use crate::wheel::Nanos;

#[derive(Clone, Copy)]
pub(super) struct When {
    pub(super) due: Nanos,
    /// The time, or one not long ago.
    pub(super) now: Nanos,
}

impl When {
    pub(super) const fn has_come(self) -> bool {
        self.due.0 <= self.now.0
    }
}

impl TimingWheel {
    pub(super) fn after_now(&self, delay: Duration) -> When {
        let now = self.shard().clock().now();
        When { due: now.after(delay), now }
    }

    pub(super) fn when(&self, instant: Instant) -> When {
        let clock = self.shard().clock();
        When { due: clock.nanos(instant), now: clock.now() }
    }
}
