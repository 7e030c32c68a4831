//! When to turn next: once for a tick, whatever number of shards has something to do in it.

use crate::engine::alarm::Alarm;
use crate::wheel::{Nanos, Resolution};

/// When to turn next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// When the first shard has something to do.
    pub(super) first: Nanos,
    /// The last of the shards' next expirations that lie in the same tick as `first`: so there is one turn for a tick.
    pub(super) at: Nanos,
}

impl Plan {
    pub(super) const NOTHING: Self = Self { first: Nanos::MAX, at: Nanos::MAX };

    /// The plan with one more shard, which has something to do at `next`.
    pub(super) fn with(self, next: Nanos, resolution: Resolution) -> Self {
        let first = self.first.min(next);
        let end = resolution.end_of_tick(first);
        // `MAX` means that a shard has nothing to do. The last tick may be long, so other times may lie in one tick
        // with it.
        let in_tick = |time: Nanos| (time <= end && time < Nanos::MAX).then_some(time);
        let at = in_tick(self.at).max(in_tick(next)).unwrap_or(first);
        Self { first, at }
    }

    /// When to make the turn. Where the clock can be paused, at the very time at which the first shard has something to do.
    pub(super) fn time(self, alarm: &Alarm, now: Nanos) -> Nanos {
        let at = if alarm.is_pausable() { self.first } else { self.at };
        // Not on a paused clock: an idle clock would jump to the time of the next check for the last handle.
        if alarm.refresh_paused() { at } else { at.min(alarm.recheck_after(now)) }
    }
}
