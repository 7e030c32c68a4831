//! Rounding deadlines up to grids, so that timers that may be late fire together.
//!
//! A grid has a point in each second, or in each 2, 4, 8 seconds and so on, or in each half, quarter and eighth of one: so
//! a tolerance of a second, which is what people write, has a grid of a whole second. A point lies at the end of a second
//! tick, the last one that ends by the exact time, because a busy wheel is turned only then. The [`tolerance_unit`](super::tolerance_unit) is
//! the finest of these grids.

use std::time::Duration;

use crate::wheel::nanos::Nanos;
use crate::wheel::tick::Resolution;

/// A grid of points in time. A deadline with a tolerance is rounded up to a point of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Two points are 2 to the power of this many units apart.
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
    /// The result lies on the widest grid that fits into the tolerance: of 1 s, 2 s, 4 s and so on, or of 500 ms, 250 ms,
    /// 125 ms and so on. Points are counted from the origin, and moved to the end of the last pair of ticks that is over by
    /// then. So entries with near deadlines are handed out together. A deadline stays as it is if it would be rounded beyond
    /// [`Nanos::MAX`], or if the tolerance, in whole pairs of ticks, is less than the finest grid, which is two to four ticks
    /// wide.
    #[must_use]
    pub fn round_up_within(self, deadline: Nanos, tolerance: Duration) -> Nanos {
        self.round_up_tolerant(deadline, tolerance)
    }

    /// The same, of what stands in a hierarchy and need not be copied.
    #[inline]
    pub(super) fn round_up_tolerant(&self, deadline: Nanos, tolerance: Duration) -> Nanos {
        match self.grid_within(Nanos::from_duration(tolerance)) {
            Some(grid) => self.round_up(deadline, grid),
            None => deadline,
        }
    }

    /// The widest grid on which no deadline is late by the whole of `tolerance`. None if its whole pairs of ticks are less
    /// than a unit.
    #[inline]
    pub(crate) fn grid_within(&self, tolerance: Nanos) -> Option<Grid> {
        let unit = self.unit.value();
        if tolerance.0 < unit {
            return None;
        }
        // The distance of two points is in whole pairs too. Mostly this is clear without division.
        let mut order = tolerance.0.ilog2() - unit.ilog2();
        if unit << order > tolerance.0 {
            order -= 1;
        }
        let width = unit << order;
        let fits = tolerance.0 - width >= self.two_ticks.value()
            || self.is_whole(order)
            || self.whole_pairs(tolerance).0 >= width;
        // Half of the width fits, because it is at least two ticks.
        let order = if fits { order } else { order.checked_sub(1)? };
        Some(Grid { order: u8::try_from(order).expect("fewer than 64").min(Grid::WIDEST) })
    }

    /// Rounds a deadline up to a grid, as far as there is time.
    #[inline]
    pub(crate) fn round_up(&self, deadline: Nanos, grid: Grid) -> Nanos {
        let last = self.unit_of_deadline(deadline) | ((1 << grid.order) - 1);
        let exact = last.checked_add(1).and_then(|units| units.checked_mul(self.unit.value()));
        match exact {
            // The origin ends no tick, but lies on every grid.
            _ if deadline == Nanos::ZERO => deadline,
            Some(exact) if self.is_whole(grid.order.into()) => Nanos(exact),
            // The point that is moved to the end of a pair of ticks does not come before the deadline.
            Some(exact) if exact - deadline.0 >= self.two_ticks.value() => self.whole_pairs(Nanos(exact)),
            _ => self.round_up_near_point(deadline, grid),
        }
    }

    /// As [`round_up`](Self::round_up), also where the next point may be moved before the deadline.
    #[cold]
    fn round_up_near_point(&self, deadline: Nanos, grid: Grid) -> Nanos {
        let pair = self.two_ticks.divide(deadline.0 - 1);
        let end = pair.checked_add(1).and_then(|pairs| pairs.checked_mul(self.two_ticks.value()));
        let last = end.map(|end| self.unit_of_deadline(Nanos(end)) | ((1 << grid.order) - 1));
        last.and_then(|last| self.point(last.checked_add(1)?, grid.order.into())).unwrap_or(deadline)
    }

    /// The point that lies so many units after the origin, if time does not end before. The units are a multiple of 2 to
    /// the power of `order`.
    #[inline]
    pub(crate) fn point(&self, units: u64, order: u32) -> Option<Nanos> {
        let exact = units.checked_mul(self.unit.value()).map(Nanos);
        if self.is_whole(order) { exact } else { exact.map(|exact| self.whole_pairs(exact)) }
    }

    /// Whether 2 to the power of `order` units are whole pairs of ticks, and so no point of that grid has to be moved.
    #[inline]
    const fn is_whole(&self, order: u32) -> bool {
        order >= self.whole_order
    }

    /// The number of the unit that a deadline lies in. A point lies in the unit that ends there.
    #[inline]
    pub(crate) const fn unit_of_deadline(&self, deadline: Nanos) -> u64 {
        self.unit.divide(deadline.0.saturating_sub(1))
    }

    /// The number of the unit that the clock is in.
    pub(crate) const fn unit_of_clock(&self, now: Nanos) -> u64 {
        self.unit.divide(now.0)
    }

    /// Without what is less than two ticks.
    #[inline]
    const fn whole_pairs(&self, time: Nanos) -> Nanos {
        Nanos(time.0 - self.two_ticks.remainder(time.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_tick(tick: u64) -> Resolution {
        Resolution::new(Duration::from_nanos(tick)).expect("it is in range")
    }

    const MILLI: u64 = 1_000_000;

    #[test]
    fn a_tolerant_deadline_is_rounded_up_to_the_widest_grid_that_fits_into_its_tolerance() {
        let rounded = |deadline, tolerance| {
            let deadline = Nanos::from_duration(Duration::from_micros(deadline));
            with_tick(MILLI).round_up_within(deadline, Duration::from_millis(tolerance)).0 / 1_000
        };
        assert_eq!([0, 1].map(|tolerance| rounded(30_100_001, tolerance)), [30_100_001; 2]);
        assert_eq!([126, 249].map(|tolerance| rounded(30_100_001, tolerance)), [30_124_000; 2]);
        assert_eq!([250, 499].map(|tolerance| rounded(30_100_001, tolerance)), [30_250_000; 2]);
        assert_eq!([1_000, 1_024, 1_999].map(|tolerance| rounded(30_100_001, tolerance)), [31_000_000; 3]);
        assert_eq!([2_000, 3_999].map(|tolerance| rounded(30_100_001, tolerance)), [32_000_000; 2]);
        assert_eq!([0, 30_000_000, 30_000_001].map(|at| rounded(at, 1_000)), [0, 30_000_000, 31_000_000]);
    }

    #[test]
    fn where_a_point_is_no_end_of_a_second_tick_it_moves_to_the_end_before() {
        let points = |tolerance: u64| {
            let next = |&at: &u64| {
                let after = Nanos(at * MILLI + 1);
                Some(with_tick(MILLI).round_up_within(after, Duration::from_millis(tolerance)).0 / MILLI)
            };
            std::iter::successors(Some(0), next).skip(1).take(4).collect::<Vec<_>>()
        };
        assert_eq!(points(64), [62, 124, 186, 250]);
        assert_eq!(points(63), [30, 62, 92, 124], "two points of the next grid are 64 ms apart");
        assert_eq!(points(4), [2, 6, 10, 14]);
    }

    #[test]
    fn a_grid_is_told_by_few_bits() {
        assert_eq!(Grid::from_bits(0), None);
        for order in 2..64 {
            let grid = with_tick(1).grid_within(Nanos(1 << order));
            assert_eq!(grid.and_then(|grid| Grid::from_bits(grid.to_bits())), grid);
            assert!(grid.is_some_and(|grid| grid.to_bits() < 1 << Grid::BITS), "{grid:?}");
        }
    }

    #[test]
    fn a_tolerant_deadline_that_would_be_rounded_beyond_time_stays_as_it_is() {
        for deadline in [u64::MAX, u64::MAX - 1, u64::MAX - 100] {
            for tolerance in [Duration::from_nanos(1_000), Duration::MAX] {
                assert_eq!(with_tick(10).round_up_within(Nanos(deadline), tolerance), Nanos(deadline));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_ways_that_divide_less_round_as_division_does(
            tick in prop_oneof![
                1..100_u64,
                prop::sample::select(vec![1_000, 100_000, MILLI, 10 * MILLI, 1 << 20, 3 * MILLI]),
                any::<u64>(),
            ],
            deadline: u64,
            tolerance: u64,
            (shift, near) in (0..64_u32, -5..5_i64),
            whole in prop::option::of(0..40_u32),
        ) {
            let resolution = with_tick(tick.max(1));
            let unit = resolution.unit.value();
            // Near the width of a grid, or anywhere.
            let tolerance = whole.and_then(|order| unit.checked_shl(order)).unwrap_or(tolerance >> shift);
            let tolerance = Nanos(tolerance.saturating_add_signed(near));
            let grid = resolution.grid_within(tolerance);
            let order = resolution.unit.divide(resolution.whole_pairs(tolerance).0).checked_ilog2();
            prop_assert_eq!(grid.map(|grid| u32::from(grid.order)), order.map(|order| order.min(62)));
            if let Some(grid) = grid {
                let point = (deadline >> shift) / tolerance.0 * tolerance.0;
                for deadline in [deadline >> shift, point.saturating_add_signed(near)] {
                    let deadline = Nanos(deadline.max(1));
                    let rounded = resolution.round_up(deadline, grid);
                    prop_assert_eq!(rounded, resolution.round_up_near_point(deadline, grid));
                }
            }
        }
    }
}
