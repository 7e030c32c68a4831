//! Rounding deadlines up to grids, so that timers that may be late fire together.

use std::time::Duration;

use crate::wheel::tick::{Nanos, Resolution, Tick};

/// A grid of points in time: the ends of every tick since the origin, of every second one, every fourth, or another power of
/// 2. A deadline with a tolerance is rounded up to a point of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Two points are 2 to the power of this many ticks apart.
    order: u8,
}

impl Grid {
    /// As few bits as [`BITS`](Self::BITS), never zero.
    pub(crate) const fn to_bits(self) -> u64 {
        self.order as u64 + 1
    }

    /// The one that had these [bits](Self::to_bits); none for zero.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let order = bits.checked_sub(1)?;
        Some(Self { order: u8::try_from(order).expect("it has few bits") })
    }

    /// How many bits are enough for each of them, and for none.
    pub(crate) const BITS: u32 = 6;

    /// The greatest order for which there are bits.
    const WIDEST: u8 = (1 << Self::BITS) - 2;
}

impl Resolution {
    /// Rounds a deadline up to the time at which [`insert_tolerant`](crate::wheel::Hierarchy::insert_tolerant) hands its
    /// entry out, less than `tolerance` later.
    ///
    /// The result is a multiple of the widest power of 2 ticks that fits into the tolerance. So entries with near deadlines
    /// are handed out together. A deadline stays as it is if the tolerance is less than a tick, or if it would be rounded
    /// beyond [`Nanos::MAX`].
    #[must_use]
    pub fn round_up_within(self, deadline: Nanos, tolerance: Duration) -> Nanos {
        match self.grid_within(Nanos::from_duration(tolerance)) {
            Some(grid) => self.round_up(deadline, grid),
            None => deadline,
        }
    }

    /// The widest grid on which no deadline is late by the whole of `tolerance`. None if that is less than a tick.
    pub(crate) fn grid_within(self, tolerance: Nanos) -> Option<Grid> {
        let order = self.tick_nanos.divide(tolerance.0).checked_ilog2()?;
        Some(Grid { order: u8::try_from(order).expect("fewer than 64").min(Grid::WIDEST) })
    }

    /// Rounds a deadline up to a grid, as far as there is time.
    pub(crate) fn round_up(self, deadline: Nanos, grid: Grid) -> Nanos {
        if deadline == Nanos::ZERO {
            // The origin ends no tick, but lies on every grid.
            return deadline;
        }
        let last = self.tick_of_deadline(deadline).0 | ((1 << grid.order) - 1);
        let end = last.checked_add(1).and_then(|ticks| ticks.checked_mul(self.tick_nanos.value()));
        end.map_or(deadline, Nanos)
    }

    /// Whether a tick ends at a deadline.
    pub(crate) fn ends_at(self, tick: Tick, deadline: Nanos) -> bool {
        // Not rounded to the end of time.
        self.beginning(tick).0.checked_add(self.tick_nanos.value()) == Some(deadline.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> Resolution {
        Resolution::new(Duration::from_nanos(10)).expect("ten is in range")
    }

    #[test]
    fn a_tolerant_deadline_is_rounded_up_to_a_power_of_2_ticks_that_fits_into_its_tolerance() {
        let rounded =
            |deadline, tolerance| ten().round_up_within(Nanos(deadline), Duration::from_nanos(tolerance)).0;
        assert_eq!([0, 9].map(|tolerance| rounded(41, tolerance)), [41, 41]);
        assert_eq!([10, 19].map(|tolerance| rounded(41, tolerance)), [50, 50]);
        assert_eq!([20, 39].map(|tolerance| rounded(41, tolerance)), [60, 60]);
        assert_eq!([40, 79].map(|tolerance| rounded(41, tolerance)), [80, 80]);
        assert_eq!([160, 319].map(|tolerance| rounded(41, tolerance)), [160, 160]);
        assert_eq!([320, 639].map(|tolerance| rounded(41, tolerance)), [320, 320]);
        assert_eq!([0, 40, 80].map(|deadline| rounded(deadline, 40)), [0, 40, 80]);
    }

    #[test]
    fn a_grid_is_told_by_few_bits() {
        let nano = Resolution::new(Duration::from_nanos(1)).expect("one is in range");
        assert_eq!(Grid::from_bits(0), None);
        for order in 0..64 {
            let grid = nano.grid_within(Nanos(1 << order));
            assert_eq!(grid.and_then(|grid| Grid::from_bits(grid.to_bits())), grid);
            assert!(grid.is_some_and(|grid| grid.to_bits() < 1 << Grid::BITS), "{grid:?}");
        }
    }

    #[test]
    fn a_tolerant_deadline_that_would_be_rounded_beyond_time_stays_as_it_is() {
        for deadline in [u64::MAX, u64::MAX - 1, u64::MAX - 100] {
            assert_eq!(ten().round_up_within(Nanos(deadline), Duration::from_nanos(1_000)), Nanos(deadline));
            assert_eq!(ten().round_up_within(Nanos(deadline), Duration::MAX), Nanos(deadline));
        }
    }
}
