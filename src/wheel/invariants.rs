//! What holds between the parts of a hierarchy at all times, as checks.

use super::{BucketId, Hierarchy, Nanos, Place};
use crate::tick::Tick;

impl<T> Hierarchy<T> {
    /// After a mutation, in debug builds: the entry stands where it says. As cheap as the mutation.
    pub(super) fn debug_assert_linked(&self, index: u32) {
        #[cfg(debug_assertions)]
        {
            let Place { bucket, position } = self.entries.get(index).place;
            assert_eq!(self.bucket(bucket).get(position), Some(index));
            assert!(self.bucket(bucket).queued);
        }
        #[cfg(not(debug_assertions))]
        let _ = index;
    }

    /// Whether no bucket that holds something expires before `time`. Takes a look at every bucket in the queue.
    pub(crate) fn expires_no_earlier_than(&self, time: Nanos) -> bool {
        let mut held = self.queue.iter().filter(|&queued| !self.bucket(queued.bucket()).is_empty());
        held.all(|queued| self.expiration(queued) >= time)
    }

    /// Checks every invariant, in time proportional to everything there is. For tests.
    ///
    /// # Panics
    /// If one does not hold, which is a defect of this crate.
    #[doc(hidden)]
    pub fn assert_invariants(&self) {
        let clock = self.clock;
        assert_eq!(clock, self.resolution.tick_of_clock(self.elapsed));
        let tick_at = |beginning| self.resolution.tick_of_clock(beginning);

        // Each queued bucket stands there once, under the number that its slot stands for at present.
        let mut queued = std::collections::HashMap::new();
        for item in self.queue.iter() {
            let id = item.bucket();
            let level = &self.levels[usize::from(id.level)];
            let tick = tick_at(item.beginning);
            assert!(self.bucket(id).queued, "{id:?} does not know that it is queued");
            assert!(queued.insert(id, tick).is_none(), "{id:?} is queued twice");
            assert_eq!(level.slot(tick), id.slot);
            assert_eq!(level.first_tick(tick), tick);
            assert!(tick >= level.first_tick(clock), "{id:?} began before the clock");
            assert!(level.covers(tick, clock), "{id:?} lies beyond its level");
        }

        // Each bucket that holds something is queued; each entry in it may stand there.
        let mut held = 0;
        for (number, level) in self.levels.iter().enumerate() {
            for (slot, bucket) in level.buckets.iter().enumerate() {
                let id = BucketId {
                    level: u8::try_from(number).expect("at most 64 levels"),
                    slot: u16::try_from(slot).expect("at most 2^16 slots"),
                };
                assert_eq!(bucket.queued, queued.contains_key(&id));
                assert!(bucket.is_empty() || bucket.queued, "{id:?} is not empty and not queued");
                for (position, index) in bucket.iter() {
                    let position = u32::try_from(position).expect("no more entries than indices");
                    assert_eq!(self.entries.get(index).place, Place { bucket: id, position });
                    held += 1;
                }
            }
        }
        assert_eq!(held, self.len());
        for (index, entry) in self.entries.iter() {
            let Place { bucket: id, position } = entry.place;
            assert_eq!(self.bucket(id).get(position), Some(index));
            let Tick(first) = queued[&id];
            let Tick(due) = self.resolution.tick_of_deadline(entry.deadline).max(clock);
            assert!(first <= due, "an entry due in tick {due} waits for the bucket of tick {first}");
            if id.level == 0 {
                let last = self.resolution.tick_of_deadline(self.bucket(id).last_deadline).max(clock);
                assert!(last.0 <= first.max(clock.0), "the bucket of tick {first} waits for tick {last:?}");
            }
        }
    }
}
