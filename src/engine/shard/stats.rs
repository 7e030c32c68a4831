//! What a shard counts, and adds to the statistics of its wheel.

use super::Shard;
use super::leftovers::count_in;
use crate::telemetry::counters::Counters;
use crate::telemetry::stats::Stats;

/// How many buckets are counted under one hold of the lock: more than the levels of a wheel of the default size can have.
/// Such a hold is shorter than that of one of a turn's batches.
const BUCKETS: usize = 2048;

impl Shard {
    /// What turns count.
    pub(crate) fn counters(&self) -> &Counters {
        self.alarm.counters()
    }

    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        state.hierarchy.len() - self.leftovers.with_keys(|keys| count_in(keys, &state.hierarchy))
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let state = self.state.lock();
        stats.armed += state.armed;
        stats.fired += state.fired;
        stats.cascaded += state.hierarchy.cascaded();
        // The leftovers are read once for all counts, because other threads discard timers meanwhile. So the levels add
        // up to `pending`, as long as one hold of the lock counts all buckets.
        let mut left = self.leftovers.with_keys(|keys| {
            let discarded = count_in(keys, &state.hierarchy);
            stats.pending += state.hierarchy.len() - discarded;
            stats.cancelled += state.cancelled + discarded as u64;
            state.hierarchy.count_by_level(&mut stats.pending_by_level, 0, BUCKETS, keys)
        });
        drop(state);
        while let Some(from) = left {
            let state = self.state.lock();
            left = self.leftovers.with_keys(|keys| {
                state.hierarchy.count_by_level(&mut stats.pending_by_level, from, BUCKETS, keys)
            });
        }
    }
}
