//! When a job is due, beside the time at which that was asked: one look at the clock for each job.

use std::time::Duration;

use tokio::time::Instant;

use crate::handle::timing_wheel::TimingWheel;
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

#[derive(Clone, Copy)]
pub(super) struct When {
    pub(super) due: Nanos,
    /// The time, or one not long ago.
    pub(super) now: Nanos,
}

impl When {
    pub(super) fn after(delay: Duration, clock: &Clock) -> Self {
        let now = clock.now();
        Self { due: now.after(delay), now }
    }

    pub(super) fn at(instant: Instant, clock: &Clock) -> Self {
        Self { due: clock.nanos(instant), now: clock.now() }
    }

    pub(super) const fn has_come(self) -> bool {
        self.due.0 <= self.now.0
    }
}

impl TimingWheel {
    pub(super) fn after_now(&self, delay: Duration) -> When {
        When::after(delay, self.shard().clock())
    }

    pub(super) fn when(&self, instant: Instant) -> When {
        When::at(instant, self.shard().clock())
    }
}
