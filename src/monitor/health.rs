//! The health check: compares a wheel's statistics with limits.

use std::time::Duration;

use super::{Exceeded, Limits, Unhealthy};
use crate::handle::TimingWheel;
use crate::telemetry::histogram::told_of;
use crate::telemetry::stats::Stats;

impl Stats {
    /// Compares these values with `limits`.
    ///
    /// # Errors
    /// If a limit is exceeded. The error names each such value and its limit.
    ///
    /// # Panics
    /// Never.
    pub fn check(&self, limits: &Limits) -> Result<(), Unhealthy> {
        let exceeded: Vec<Exceeded> = limits.exceeded_by(self).collect();
        if exceeded.is_empty() { Ok(()) } else { Err(Unhealthy::new(exceeded)) }
    }
}

impl TimingWheel {
    /// Compares the wheel's [`stats`](Self::stats), which count from its beginning, with `limits`. To judge by what
    /// happened since the last check, use [`Stats::since`] and [`Stats::check`], as [`monitor`](crate::monitor) shows.
    ///
    /// This locks each shard for a moment, one after the other, as [`stats`](Self::stats) does.
    ///
    /// # Errors
    /// If a limit is exceeded. The error names each such value and its limit.
    ///
    /// # Panics
    /// Never.
    pub fn health(&self, limits: &Limits) -> Result<(), Unhealthy> {
        self.stats().check(limits)
    }
}

impl Limits {
    /// All limits that are exceeded.
    fn exceeded_by<'a>(&'a self, stats: &'a Stats) -> impl Iterator<Item = Exceeded> + 'a {
        let Self { pending, lateness, lock_hold, overdue, refused, stalls, wakers_panicked } = self;
        // A value in the same bucket as the limit may be within it.
        let above = |told: Option<Duration>, limit| told.filter(|&told| told > told_of(limit));
        let ended = stats.ended.then_some(Exceeded::Ended);
        let unwatched = stats.unwatched.then_some(Exceeded::Unwatched);
        let overdue = overdue.filter(|&limit| stats.overdue > limit);
        let overdue = overdue.map(|limit| Exceeded::Overdue { overdue: stats.overdue, limit });
        let pending = pending.filter(|&limit| stats.pending > limit);
        let pending = pending.map(|limit| Exceeded::Pending { pending: stats.pending, limit });
        let lateness = lateness.iter().filter_map(move |&(quantile, limit)| {
            let lateness = above(stats.lateness.quantile(quantile), limit)?;
            Some(Exceeded::Lateness { quantile, lateness, limit })
        });
        let lock_hold = lock_hold.and_then(|limit| {
            above(stats.lock_holds.max(), limit).map(|longest| Exceeded::LockHold { longest, limit })
        });
        let refused = refused.filter(|&limit| stats.refused > limit);
        let refused = refused.map(|limit| Exceeded::Refused { refused: stats.refused, limit });
        let stalls = stalls.filter(|&limit| stats.stalls > limit);
        let stalls = stalls.map(|limit| Exceeded::Stalls { stalls: stats.stalls, limit });
        let wakers = wakers_panicked.filter(|&limit| stats.wakers_panicked > limit);
        let wakers = wakers.map(|limit| Exceeded::WakersPanicked { panicked: stats.wakers_panicked, limit });
        let one_each = [ended, unwatched, overdue, pending, lock_hold, refused, stalls, wakers];
        one_each.into_iter().flatten().chain(lateness)
    }
}
