//! What a shard has counted, for the statistics of its wheel.

use super::Shard;
use super::leftovers::count_in;
use crate::platform::sync::Ordering;
use crate::telemetry::stats::Stats;
use crate::wheel::Census;

/// Buckets that are looked at under one hold of the lock: all that the levels of a wheel of the default size can have,
/// and some for tolerant levels. It keeps a hold below that of the driver's batches.
const BUCKETS: usize = 1024;

impl Shard {
    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        state.hierarchy.len() - self.leftovers.look(|keys| count_in(keys, &state.hierarchy))
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let mut census = Census {
            by_level: std::mem::take(&mut stats.pending_by_level),
            tolerant: stats.pending_tolerant,
        };
        let state = self.state.lock();
        stats.armed += state.armed;
        stats.fired += state.fired;
        stats.cascaded += state.hierarchy.cascaded();
        stats.jobs_panicked += self.panics.load(Ordering::Relaxed);
        // One look for all, because others discard meanwhile: so what is pending is what stands on levels.
        let mut left = self.leftovers.look(|keys| {
            let discarded = count_in(keys, &state.hierarchy);
            stats.pending += state.hierarchy.len() - discarded;
            stats.cancelled += state.cancelled + discarded as u64;
            state.hierarchy.add_to_census(&mut census, 0, BUCKETS, keys)
        });
        drop(state);
        while let Some(from) = left {
            let state = self.state.lock();
            left =
                self.leftovers.look(|keys| state.hierarchy.add_to_census(&mut census, from, BUCKETS, keys));
        }
        (stats.pending_by_level, stats.pending_tolerant) = (census.by_level, census.tolerant);
    }
}
