//! The levels of entries with a tolerance. They wait for the end of their slot, and never move down.
//!
//! A deadline with a tolerance has been rounded up to a [grid](crate::wheel::tolerance_grid::Grid), and neighbours have been rounded to
//! the same deadline. So a bucket here has one deadline, the end of its slot. An entry goes to the finest level that reaches
//! its deadline: the slots there are so narrow that nearly all rounded deadlines lie at the end of one.
//!
//! ```text
//!   level   slots of        reaches        takes deadlines on a grid of
//!     0         1 unit         64 units        1 unit or more
//!     1         4 units       256 units        4 units or more
//!     2        16 units     1,024 units       16 units or more
//! ```
//!
//! A slot is a 64th of the reach of its level, so at most some 16th of a delay that the level below does not reach. So with
//! a tolerance of a 12th the slot fits, even if rounding takes the deadline to the next level, and if a grid whose points
//! are no ends of pairs of ticks needs two ticks more. A deadline with less tolerance may lie within a slot. Its entry then
//! stands on the exact levels, and moves down as others do.
//!
//! The geometry is that of Linux's timer wheel (Thomas Gleixner, 2016), whose levels are 8 times as wide as those
//! below.

use super::bucket_queue::Queued;
use super::{Levels, Slot};
use crate::wheel::bucket::Kind;
use crate::wheel::key::Key;
use crate::wheel::nanos::Nanos;
use crate::wheel::place::{BucketId, Place};

/// How many slots each tolerant level has.
pub(super) const SLOTS: u32 = 64;

/// A slot is 4 times as wide as one of the level below.
const WIDTH_BITS: u32 = 2;

/// The first bucket of each tolerant level, if it has been made.
#[derive(Debug, Default)]
pub(super) struct TolerantLevels {
    first_buckets: Vec<Option<BucketId>>,
    /// A time of the clock, and the unit that it lies in.
    clock: (Nanos, u64),
}

/// Where a rounded deadline belongs.
#[derive(Clone, Copy, Debug)]
pub(in crate::wheel) enum RoundedSlot {
    Tolerant(BucketId),
    Exact(Slot),
}

/// In the queue a bucket stands by the last nanosecond before its end: behind the bucket of level 0 with the deadlines
/// up to the same time, and before those that begin then. While it is drained the clock stands there.
const fn beginning(end: Nanos) -> Nanos {
    // No slot ends at the origin.
    Nanos(end.0 - 1)
}

/// The one deadline of a bucket in the queue.
pub(in crate::wheel) const fn end(queued: Queued) -> Nanos {
    Nanos(queued.beginning().0 + 1)
}

/// The number of the slot that covers a unit.
const fn number(level: usize, unit: u64) -> u64 {
    unit >> (WIDTH_BITS as usize * level)
}

/// The finest level that reaches from the clock's unit to another.
#[inline]
fn level_of(clock: u64, unit: u64) -> usize {
    let bits = u64::BITS - (unit - clock).leading_zeros();
    let level = bits.saturating_sub(SLOTS.ilog2()).div_ceil(WIDTH_BITS) as usize;
    // So many slots lie in between, or one more.
    let reaches = number(level, unit) - number(level, clock) < SLOTS.into();
    if reaches { level } else { level + 1 }
}

impl TolerantLevels {
    fn first_bucket(&self, level: usize) -> Option<BucketId> {
        self.first_buckets.get(level).copied().flatten()
    }

    /// The first bucket of each tolerant level that has been made.
    pub(super) fn first_buckets(&self) -> impl Iterator<Item = BucketId> {
        self.first_buckets.iter().flatten().copied()
    }

    /// How many tolerant levels have been made.
    pub(super) fn count(&self) -> usize {
        self.first_buckets().count()
    }
}

impl Levels {
    /// Where a rounded deadline belongs at the clock's present time. Makes levels as needed.
    pub(in crate::wheel) fn slot_for_rounded(&mut self, deadline: Nanos) -> RoundedSlot {
        // An entry within reach of level 0 does not move down there either.
        if self.may_be_finest(deadline) && self.levels[0].covers(self.due_tick(deadline)) {
            return RoundedSlot::Exact(self.slot_for(deadline));
        }
        let unit = self.resolution.unit_of_deadline(deadline);
        let level = level_of(self.unit_of_clock(), unit);
        let slot = number(level, unit);
        if self.end_of_slot(level, slot) != Some(deadline) {
            return RoundedSlot::Exact(self.slot_for(deadline));
        }
        let first = self.tolerant.first_bucket(level).unwrap_or_else(|| self.make_tolerant(level));
        let position = slot % u64::from(SLOTS);
        RoundedSlot::Tolerant(BucketId(first.0 + u32::try_from(position).expect("there are few slots")))
    }

    /// Whether a deadline is so near that level 0 may reach it. This is known without a division.
    #[inline]
    const fn may_be_finest(&self, deadline: Nanos) -> bool {
        let reach = self.resolution.tick_nanos.value().saturating_mul(self.slots as u64 + 1);
        deadline.0.saturating_sub(self.clock.0) <= reach
    }

    #[inline]
    const fn unit_of_clock(&mut self) -> u64 {
        if self.tolerant.clock.0.0 != self.clock.0 {
            self.tolerant.clock = (self.clock, self.resolution.unit_of_clock(self.clock));
        }
        self.tolerant.clock.1
    }

    /// None if time ends before.
    #[inline]
    fn end_of_slot(&self, level: usize, slot: u64) -> Option<Nanos> {
        let order = WIDTH_BITS * u32::try_from(level).expect("there are few levels");
        self.resolution.point((slot + 1).checked_mul(1 << order)?, order)
    }

    #[cold]
    fn make_tolerant(&mut self, level: usize) -> BucketId {
        let first = self.next_bucket();
        self.make_buckets(SLOTS, Kind::Tolerant);
        let levels = &mut self.tolerant.first_buckets;
        levels.resize(levels.len().max(level + 1), None);
        levels[level] = Some(first);
        first
    }

    /// As [`link`](Self::link), for a rounded deadline.
    pub(in crate::wheel) fn link_rounded(
        &mut self,
        key: Key,
        deadline: Nanos,
        slot: RoundedSlot,
    ) -> (Place, Nanos) {
        let id = match slot {
            RoundedSlot::Tolerant(id) => id,
            RoundedSlot::Exact(slot) => return self.link(key, deadline, slot),
        };
        let bucket = &mut self.buckets[id.as_index()];
        let place = Place::new(id, bucket.push(key));
        bucket.expiration = deadline;
        if !bucket.queued {
            bucket.queued = true;
            self.queue.push(beginning(deadline), id);
        }
        (place, deadline)
    }

    /// # Panics
    /// If a bucket in the queue does not stand at a slot of its level as the clock stands, or has another deadline.
    pub(super) fn assert_tolerant(&self, queued: Queued) {
        let id = queued.bucket();
        let has = |first: &BucketId| (first.0..first.0 + SLOTS).contains(&id.0);
        let level = self.tolerant.first_buckets.iter().position(|first| first.as_ref().is_some_and(has));
        let level = level.expect("it is of a tolerant level");
        let first = self.tolerant.first_bucket(level).expect("found by it");
        assert!(queued.beginning() >= self.clock, "{id:?} ended before the clock");
        let slot = number(level, self.resolution.unit_of_deadline(end(queued)));
        assert_eq!(self.end_of_slot(level, slot), Some(end(queued)), "{id:?} ends within a slot");
        let clock = self.resolution.unit_of_clock(self.clock);
        assert!(slot - number(level, clock) < SLOTS.into(), "{id:?} lies beyond its level");
        assert_eq!(slot % u64::from(SLOTS), u64::from(id.0 - first.0));
        let bucket = self.bucket(id);
        assert!(bucket.is_empty() || bucket.expiration == end(queued), "{id:?} has another deadline");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_level_is_taken_that_reaches_so_far() {
        for (clock, unit, level) in
            [(0, 63, 0), (0, 64, 1), (3, 255, 1), (3, 256, 2), (4, 256, 1), (100, 100, 0), (0, u64::MAX, 29)]
        {
            assert_eq!(level_of(clock, unit), level, "{unit} at {clock}");
        }
    }

    #[test]
    fn a_slot_is_narrower_than_a_15th_of_the_delays_that_the_level_below_does_not_reach() {
        for clock in [0, 1, 5, 1_000_003] {
            for delay in (64..100_000).step_by(7) {
                let level = level_of(clock, clock + delay);
                let width = 1 << (WIDTH_BITS as usize * level);
                assert!(15 * width < delay, "{delay} units at {clock}: {width}");
            }
        }
    }
}
