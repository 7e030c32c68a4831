//! When a job is due, beside the time at which that was asked: one reading of the clock for each job.

use std::time::Duration;

use tokio::time::Instant;

use crate::handle::timing_wheel::TimingWheel;
use crate::platform::clock::Clock;
use crate::timers::tolerance::Slack;
use crate::wheel::{Nanos, Resolution};

#[derive(Clone, Copy)]
pub(super) struct When {
    pub(super) due: Nanos,
    /// The time, or one not long ago.
    pub(super) now: Nanos,
    /// How late the job may be.
    pub(super) slack: Slack,
}

impl When {
    pub(super) fn after(delay: Duration, clock: &Clock) -> Self {
        let now = clock.now();
        Self { due: now.after(delay), now, slack: Slack::None }
    }

    pub(super) fn at(instant: Instant, clock: &Clock) -> Self {
        Self { due: clock.nanos(instant), now: clock.now(), slack: Slack::None }
    }

    pub(super) const fn within(self, slack: Slack) -> Self {
        Self { slack, ..self }
    }

    pub(super) const fn has_come(self) -> bool {
        self.due.0 <= self.now.0
    }

    /// The instant to which a deadline that has not come is rounded up, if it may be late by a tick or more.
    pub(super) fn rounded(self, resolution: Resolution) -> Option<Nanos> {
        let delay = Nanos(self.due.0.saturating_sub(self.now.0));
        Some(resolution.round_up(self.due, self.slack.grid(resolution, delay)?))
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
