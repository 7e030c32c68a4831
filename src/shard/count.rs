//! What a shard has counted, for the statistics of its wheel.

use super::{Shard, State};
use crate::stats::Stats;
use crate::sync::Ordering;
use crate::wheel::Census;

/// Buckets that are looked at under one hold of the lock: all that the levels of a wheel of the default size can have,
/// and some for tolerant levels. It keeps a hold below that of the driver's batches.
const BUCKETS: usize = 1024;

impl Shard {
    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        state.hierarchy.len() - self.cancelled.count_in(&state.hierarchy)
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let mut census = Census {
            by_level: std::mem::take(&mut stats.pending_by_level),
            tolerant: stats.pending_tolerant,
        };
        let state = self.state.lock();
        let discarded = self.cancelled.count_in(&state.hierarchy);
        stats.pending += state.hierarchy.len() - discarded;
        stats.armed += state.armed;
        stats.fired += state.fired;
        stats.cancelled += state.cancelled + discarded as u64;
        stats.cascaded += state.hierarchy.cascaded();
        stats.jobs_panicked += self.panics.load(Ordering::Relaxed);
        let mut left = self.add_to_census(&state, &mut census, 0);
        drop(state);
        while let Some(from) = left {
            left = self.add_to_census(&self.state.lock(), &mut census, from);
        }
        (stats.pending_by_level, stats.pending_tolerant) = (census.by_level, census.tolerant);
    }

    /// Counts on from bucket number `from`, and tells where to go on after that, if there are more.
    fn add_to_census(&self, state: &State, census: &mut Census, from: usize) -> Option<usize> {
        self.cancelled.look(|discarded| state.hierarchy.add_to_census(census, from, BUCKETS, discarded))
    }
}
