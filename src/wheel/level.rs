//! The arithmetic of one level: which of its slots a tick belongs to.

use super::bucket::Bucket;
use crate::tick::Tick;

/// A ring of slots, each `width` ticks wide.
///
/// Slots are numbered without end ("virtual" numbers, as in Kafka's wheel); the ring keeps those from the
/// clock's own on, `slots` of them, so that each bucket stands for one virtual number at a time.
#[derive(Debug)]
pub(super) struct Level {
    width: Divisor,
    slots: Divisor,
    pub(super) buckets: Box<[Bucket]>,
}

impl Level {
    /// Level 0, whose slots are one tick wide.
    ///
    /// # Panics
    /// If `slots` is zero.
    pub(super) fn finest(slots: u64) -> Self {
        Self::of_width(1, slots)
    }

    /// The overflow level above this one: one of its slots covers all of this one's.
    ///
    /// # Panics
    /// If this level already reaches the last tick; then none is needed above it.
    pub(super) fn overflow(&self) -> Self {
        let width = self.width.value.checked_mul(self.slots.value).expect("no tick lies beyond this level");
        Self::of_width(width, self.slots.value)
    }

    fn of_width(width: u64, slots: u64) -> Self {
        let buckets = (0..slots).map(|_| Bucket::default()).collect();
        Self { width: Divisor::new(width), slots: Divisor::new(slots), buckets }
    }

    /// The virtual number of the slot that covers `tick`.
    pub(super) const fn number(&self, tick: Tick) -> u64 {
        self.width.divide(tick.0)
    }

    /// Whether `tick` lies within the round that starts at the clock's slot. `tick` is not before `clock`.
    pub(super) const fn covers(&self, tick: Tick, clock: Tick) -> bool {
        self.number(tick) - self.number(clock) < self.slots.value
    }

    /// The position in the ring of the slot that covers `tick`.
    pub(super) fn slot(&self, tick: Tick) -> u16 {
        let slot = self.slots.remainder(self.number(tick));
        u16::try_from(slot).expect("a remainder of at most 2^16 slots")
    }

    /// The first tick of the slot that covers `tick`.
    pub(super) const fn first_tick(&self, tick: Tick) -> Tick {
        // No overflow: the product is at most `tick`.
        Tick(self.number(tick) * self.width.value)
    }
}

/// A divisor that divides by shifting where it is a power of two, as it is unless a user wants otherwise.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    value: u64,
    shift: Option<u32>,
}

impl Divisor {
    const fn new(value: u64) -> Self {
        assert!(value > 0);
        let shift = if value.is_power_of_two() { Some(value.trailing_zeros()) } else { None };
        Self { value, shift }
    }

    const fn divide(self, dividend: u64) -> u64 {
        match self.shift {
            Some(shift) => dividend >> shift,
            None => dividend / self.value,
        }
    }

    const fn remainder(self, dividend: u64) -> u64 {
        match self.shift {
            Some(_) => dividend & (self.value - 1),
            None => dividend % self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_a_level_follow_the_clock_round_the_ring() {
        let level = Level::finest(3);
        let clock = Tick(7);
        assert_eq!([7, 8, 9].map(|tick| level.slot(Tick(tick))), [1, 2, 0]);
        assert!(level.covers(Tick(9), clock));
        assert!(!level.covers(Tick(10), clock));
    }

    #[test]
    fn one_slot_of_the_overflow_level_covers_a_whole_level_below() {
        let level = Level::finest(3).overflow();
        assert_eq!(level.number(Tick(8)), 2);
        assert_eq!(level.first_tick(Tick(8)), Tick(6));
        assert!(level.covers(Tick(8), Tick(2)));
        assert!(!level.covers(Tick(9), Tick(2)));
    }

    #[test]
    fn a_level_exists_for_the_last_tick_whatever_the_number_of_slots() {
        for slots in [2, 3, 64, 256, 65_536] {
            let mut level = Level::finest(slots);
            while !level.covers(Tick(u64::MAX), Tick(0)) {
                level = level.overflow();
            }
            assert!(level.covers(Tick(u64::MAX), Tick(0)), "{slots} slots");
        }
    }

    #[test]
    fn a_shift_divides_as_a_division_does() {
        for value in [1, 2, 3, 20, 64] {
            for dividend in [0, 1, 19, 20, 63, 64, 65, u64::MAX] {
                assert_eq!(Divisor::new(value).divide(dividend), dividend / value);
                assert_eq!(Divisor::new(value).remainder(dividend), dividend % value);
            }
        }
    }
}
