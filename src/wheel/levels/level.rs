//! The arithmetic of one level: which of its slots a tick belongs to.

use crate::wheel::divisor::Divisor;
use crate::wheel::place::BucketId;
use crate::wheel::tick::Tick;

/// A ring of slots, each `width` ticks wide.
///
/// Slots are numbered without end ("virtual" numbers, as in Kafka's wheel); the ring keeps those from the
/// clock's own on, `slots` of them, so that each bucket stands for one virtual number at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    width: Divisor,
    slots: Divisor,
    /// The bucket at the ring's position 0.
    first_bucket: BucketId,
    /// The last tick in the ring as the clock stands.
    last: Tick,
}

impl Level {
    /// Level 0, whose slots are one tick wide, at the first tick.
    ///
    /// # Panics
    /// If `slots` is zero.
    pub(super) fn finest(slots: u64) -> Self {
        let mut level = Self {
            width: Divisor::new(1),
            slots: Divisor::new(slots),
            first_bucket: BucketId(0),
            last: Tick(0),
        };
        level.set_clock(Tick(0));
        level
    }

    /// The overflow level above this one: one of its slots covers all of this one's. Its buckets are those from
    /// `first_bucket` on.
    ///
    /// # Panics
    /// If this level already reaches the last tick; then none is needed above it.
    pub(super) fn overflow(&self, clock: Tick, first_bucket: BucketId) -> Self {
        let slots = self.slots.value();
        let width = self.width.value().checked_mul(slots).expect("no tick lies beyond this level");
        let mut level = Self { width: Divisor::new(width), slots: self.slots, first_bucket, last: Tick(0) };
        level.set_clock(clock);
        level
    }

    /// Turns the ring so that it begins at the clock's slot, and returns whether it had to be turned. If it had not, neither
    /// have those of coarser levels, because one of their slots is as wide as several of this level.
    pub(super) fn set_clock(&mut self, clock: Tick) -> bool {
        let end = self.number(clock).saturating_add(self.slots.value());
        // There is nothing past the last tick of all.
        let last = end.checked_mul(self.width.value()).map_or(u64::MAX, |first_beyond| first_beyond - 1);
        std::mem::replace(&mut self.last, Tick(last)) != Tick(last)
    }

    /// Whether `tick`, which is not before the clock's, lies in the ring.
    #[inline]
    pub(super) const fn covers(&self, tick: Tick) -> bool {
        tick.0 <= self.last.0
    }

    /// The bucket at the ring's position 0.
    pub(super) const fn first_bucket(&self) -> BucketId {
        self.first_bucket
    }

    /// The bucket at the slot that covers `tick`.
    #[inline]
    pub(super) fn bucket(&self, tick: Tick) -> BucketId {
        let slot = self.slots.remainder(self.number(tick));
        BucketId(self.first_bucket.0 + u32::try_from(slot).expect("at most 2^16 slots"))
    }

    /// The first tick of the slot that covers `tick`.
    pub(super) const fn first_tick(&self, tick: Tick) -> Tick {
        // No overflow: the product is at most `tick`.
        Tick(self.number(tick) * self.width.value())
    }

    /// Whether this level has that bucket.
    pub(super) fn has(&self, bucket: BucketId) -> bool {
        let position = bucket.0.checked_sub(self.first_bucket.0);
        position.is_some_and(|position| u64::from(position) < self.slots.value())
    }

    /// The virtual number of the slot that covers `tick`.
    const fn number(&self, tick: Tick) -> u64 {
        self.width.divide(tick.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_a_level_follow_the_clock_round_the_ring() {
        let mut level = Level::finest(3);
        level.set_clock(Tick(7));
        assert_eq!([7, 8, 9].map(|tick| level.bucket(Tick(tick)).0), [1, 2, 0]);
        assert!(level.covers(Tick(9)));
        assert!(!level.covers(Tick(10)));
    }

    #[test]
    fn one_slot_of_the_overflow_level_covers_a_whole_level_below() {
        let level = Level::finest(3).overflow(Tick(2), BucketId(3));
        assert_eq!(level.bucket(Tick(2)), BucketId(3));
        assert_eq!(level.bucket(Tick(8)), BucketId(5));
        assert_eq!(level.first_tick(Tick(8)), Tick(6));
        assert!(level.covers(Tick(8)));
        assert!(!level.covers(Tick(9)));
    }

    #[test]
    fn a_level_exists_for_the_last_tick_whatever_the_number_of_slots() {
        for slots in [2, 3, 64, 256, 65_536] {
            let mut level = Level::finest(slots);
            while !level.covers(Tick(u64::MAX)) {
                level = level.overflow(Tick(0), BucketId(0));
            }
            level.set_clock(Tick(u64::MAX));
            assert!(level.covers(Tick(u64::MAX)), "{slots} slots");
        }
    }
}
