//! What holds between levels, buckets and queue at all times, as checks.

use super::{Levels, tolerant};
use crate::wheel::bucket::Kind;
use crate::wheel::key::Key;
use crate::wheel::nanos::Nanos;
use crate::wheel::place::{BucketId, Place};

impl Levels {
    /// The time at which each bucket in the queue that holds something is to be drained.
    pub(in crate::wheel) fn expirations(&self) -> impl Iterator<Item = Nanos> {
        self.queue.iter().filter_map(|queued| self.expiration(queued))
    }

    /// Checks every invariant, and returns each key with its place.
    ///
    /// # Panics
    /// If one does not hold.
    pub(in crate::wheel) fn assert_invariants(&self) -> Vec<(Key, Place)> {
        let clock = self.clock_tick;
        assert_eq!(clock, self.resolution.tick_of_clock(self.clock));
        let exact_and_tolerant = [(self.levels.len(), self.slots), (self.tolerant.count(), tolerant::SLOTS)];
        let buckets = exact_and_tolerant.map(|(levels, slots)| levels * slots as usize);
        assert_eq!(self.buckets.len(), buckets.iter().sum());
        for level in &self.levels {
            let mut turned = level.clone();
            turned.set_clock(clock);
            assert_eq!(*level, turned, "a level's ring does not begin at the clock");
        }

        // Each queued bucket stands there once, under the number that its slot stands for at present.
        let mut beginnings = std::collections::HashMap::new();
        for queued in self.queue.iter() {
            let id = queued.bucket();
            let tick = self.resolution.tick_of_clock(queued.beginning());
            assert!(beginnings.insert(id, tick).is_none(), "{id:?} is queued twice");
            let Some(level) = self.levels.iter().find(|level| level.has(id)) else {
                self.assert_tolerant(queued);
                continue;
            };
            assert_eq!(level.bucket(tick), id);
            assert_eq!(level.first_tick(tick), tick);
            assert!(tick >= level.first_tick(clock), "{id:?} began before the clock");
            assert!(level.covers(tick), "{id:?} lies beyond its level");
        }

        let mut held = Vec::new();
        for (number, bucket) in self.buckets.iter().enumerate() {
            let id = BucketId(u32::try_from(number).expect("as many as were numbered"));
            let level = self.levels.iter().position(|level| level.has(id));
            let kind = level.map_or(Kind::Tolerant, |n| if n == 0 { Kind::Finest } else { Kind::Overflow });
            assert_eq!(bucket.kind, kind, "{id:?}");
            let beginning = beginnings.get(&id);
            assert_eq!(bucket.queued, beginning.is_some(), "{id:?} is wrong about being queued");
            assert!(bucket.is_empty() || bucket.queued, "{id:?} is not empty and not queued");
            if let Some(&first) = beginning
                && self.is_finest(id)
                && !bucket.is_empty()
            {
                assert!(self.due_tick(bucket.expiration) <= first.max(clock), "{id:?} waits too long");
            }
            if let Some(&first) = beginning
                && bucket.kind == Kind::Overflow
            {
                assert_eq!(
                    bucket.expiration,
                    self.resolution.beginning(first),
                    "{id:?} comes up within its slot"
                );
            }
            held.extend(bucket.iter().map(|(position, key)| (key, Place::new(id, position))));
        }
        held
    }

    /// Whether a deadline may wait in that bucket: not beyond its due tick.
    pub(in crate::wheel) fn may_hold(&self, id: BucketId, deadline: Nanos) -> bool {
        let mut queued = self.queue.iter().filter(|queued| queued.bucket() == id);
        let first = queued.next().map(|queued| self.resolution.tick_of_clock(queued.beginning()));
        first.is_some_and(|first| first <= self.due_tick(deadline))
    }
}
