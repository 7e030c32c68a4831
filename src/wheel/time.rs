//! Time: points on the time line, ticks, and the grids to which deadlines with a tolerance are rounded.
//!
//! ```text
//!   tick 0           tick 1           tick 2
//! |----------------|----------------|----------------|--> nanoseconds since the origin
//! 0                w               2w               3w
//!                     ^ now: tick 1
//!                          ^ deadline: tick 1, due at 2w at the latest
//! ```
//!
//! A tick holds the deadlines after its beginning, up to and including its end. So a deadline rounds **up**: it may have
//! to wait for the end of its tick. The clock rounds **down**: a tick that has begun is not over. Thus no entry is handed
//! out before its deadline.

use std::fmt;
use std::num::NonZeroU8;
use std::time::Duration;

/// A point in time: nanoseconds since the origin of a wheel. The owner of the wheel chooses the origin.
///
/// It has 64 bits, 584 years. [`Nanos::MAX`] stands for all later times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The end of time: no clock reaches it.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `since_origin` after the origin, at most [`Nanos::MAX`].
    #[must_use]
    #[inline]
    pub fn from_duration(since_origin: Duration) -> Self {
        // `Duration::as_nanos` counts in 128 bits, which takes longer.
        match since_origin.as_secs().checked_mul(1_000_000_000) {
            Some(nanos) => Self(nanos.saturating_add(since_origin.subsec_nanos() as u64)),
            None => Self::MAX,
        }
    }

    /// The point `delay` later, at most [`Nanos::MAX`].
    #[must_use]
    #[inline]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(Self::from_duration(delay).0))
    }

    /// The point `time` earlier, at least the origin.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(Self::from_duration(time).0))
    }

    /// The time since the origin.
    #[must_use]
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MAX => f.write_str("never"),
            nanos => nanos.to_duration().fmt(f),
        }
    }
}

/// The number of a tick, counted from the origin: the unit in which slots are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(pub(super) u64);

/// How long one tick is: the width of a slot of level 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Resolution {
    /// How long a tick is, in nanoseconds.
    tick: u64,
    /// Where the first tick begins.
    first: u64,
}

impl Resolution {
    /// A tick of `tick`, or `None` unless it is from 1 ns to `u64::MAX` ns long.
    #[must_use]
    pub fn new(tick: Duration) -> Option<Self> {
        match u64::try_from(tick.as_nanos()) {
            Err(_) | Ok(0) => None,
            Ok(nanos) => Some(Self { tick: nanos, first: 0 }),
        }
    }

    /// These ticks, moved so that a pair of them begins at `time`.
    pub(crate) const fn with_a_border_at(self, time: Nanos) -> Self {
        let pair = self.tick.saturating_mul(2);
        Self { first: time.0 % pair, ..self }
    }

    /// How long a tick is.
    #[must_use]
    pub const fn tick(self) -> Duration {
        Duration::from_nanos(self.tick)
    }

    /// The tick that a deadline lies in. It rounds up: a deadline on a border belongs to the tick that ends there.
    #[inline]
    pub(crate) const fn tick_of_deadline(self, deadline: Nanos) -> Tick {
        // Saturating because the origin lies in no tick; as a deadline it is always in the past.
        Tick(deadline.0.saturating_sub(self.first + 1) / self.tick)
    }

    /// The tick that a deadline lies in, and the one that the clock is in when the deadline has come. By one division.
    #[inline]
    pub(super) const fn ticks_round(self, deadline: Nanos) -> (Tick, Tick) {
        let since = deadline.0.saturating_sub(self.first + 1);
        let (tick, rest) = (since / self.tick, since % self.tick);
        (Tick(tick), Tick(tick + (rest == self.tick - 1) as u64))
    }

    /// The tick that the clock is in. It rounds down: every earlier tick is over.
    pub(crate) const fn tick_of_clock(self, now: Nanos) -> Tick {
        Tick(now.0.saturating_sub(self.first) / self.tick)
    }

    /// The beginning of a tick.
    pub(crate) const fn beginning(self, tick: Tick) -> Nanos {
        // Saturating for the tick after the last; every tick that a point lies in begins below `MAX`.
        Nanos(tick.0.saturating_mul(self.tick).saturating_add(self.first))
    }

    /// The point a tick later, at most [`Nanos::MAX`].
    #[inline]
    pub(super) const fn a_tick_after(self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add(self.tick))
    }

    /// The end of the tick that a deadline lies in.
    pub(crate) const fn end_of_tick(self, deadline: Nanos) -> Nanos {
        self.a_tick_after(self.beginning(self.tick_of_deadline(deadline)))
    }

    /// The end of the pair of ticks that the clock is in, as pairs are counted from the origin.
    pub(crate) const fn end_of_pair(self, now: Nanos) -> Nanos {
        self.a_tick_after(self.beginning(Tick(self.tick_of_clock(now).0 | 1)))
    }

    /// Rounds a deadline up, by less than `tolerance`, so that entries with near deadlines get the same one.
    ///
    /// The result is a multiple of 2, 4, 8 and so on ticks, counted from the origin: of the most that fit into the
    /// tolerance. An entry with a rounded deadline is seldom moved down: see [how the wheel
    /// works](crate::wheel#how-it-works).
    ///
    /// A deadline stays as it is if the tolerance is less than two ticks, or if it would be rounded beyond [`Nanos::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use timingwheel::wheel::{Hierarchy, Nanos, Progress, Resolution};
    ///
    /// let resolution = Resolution::new(Duration::from_millis(1)).expect("not zero");
    /// let mut wheel = Hierarchy::new(resolution, 64);
    /// let at = |millis| Nanos::from_duration(Duration::from_millis(millis));
    /// let rounded = |millis| resolution.round_up_within(at(millis), Duration::from_secs(4));
    ///
    /// wheel.insert(at(0), rounded(30_000), "a").expect("30 s lie ahead");
    /// wheel.insert(at(0), rounded(30_500), "b").expect("30.5 s lie ahead");
    /// // 15 times 2,048 ms.
    /// assert_eq!(wheel.next_expiration(), Some(at(30_720)));
    ///
    /// let mut expired = Vec::new();
    /// assert_eq!(wheel.advance(at(30_720), 100, &mut expired), Progress::Done);
    /// assert_eq!((expired, wheel.cascaded()), (vec!["a", "b"], 0));
    /// ```
    #[must_use]
    pub fn round_up_within(self, deadline: Nanos, tolerance: Duration) -> Nanos {
        match self.grid_within(Nanos::from_duration(tolerance)) {
            Some(grid) => self.round_up(deadline, grid),
            None => deadline,
        }
    }

    /// The widest grid on which no deadline is late by the whole of `tolerance`.
    #[inline]
    pub(crate) fn grid_within(self, tolerance: Nanos) -> Option<Grid> {
        let order = (tolerance.0 / self.tick).checked_ilog2()?;
        let order = u8::try_from(order).expect("a logarithm of 64 bits is less than 64");
        NonZeroU8::new(order).map(|order| Grid { order })
    }

    /// Rounds a deadline up to a grid. It stays as it is if it would pass [`Nanos::MAX`].
    #[inline]
    pub(crate) fn round_up(self, deadline: Nanos, grid: Grid) -> Nanos {
        let last = self.tick_of_deadline(deadline).0 | ((1 << grid.order.get()) - 1);
        let point = last.checked_add(1).and_then(|ticks| ticks.checked_mul(self.tick));
        match point.and_then(|point| point.checked_add(self.first)) {
            // The origin ends no tick, but lies on every grid.
            Some(point) if deadline > Nanos::ZERO => Nanos(point),
            _ => deadline,
        }
    }
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolution").field("tick", &self.tick()).finish()
    }
}

/// A grid of points in time: the multiples of 2 to the power of its order ticks. All of them end pairs of ticks, because a
/// busy wheel is turned only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    order: NonZeroU8,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLI: u64 = 1_000_000;

    fn with_tick(tick: u64) -> Resolution {
        Resolution::new(Duration::from_nanos(tick)).expect("it is in range")
    }

    #[test]
    fn a_point_is_moved_as_far_as_there_is_time() {
        let nanos = Duration::from_nanos;
        assert_eq!((Nanos(5).after(nanos(10)), Nanos(5).before(nanos(3))), (Nanos(15), Nanos(2)));
        assert_eq!((Nanos(5).after(nanos(u64::MAX)), Nanos(5).before(nanos(10))), (Nanos::MAX, Nanos::ZERO));
        assert_eq!(Nanos::from_duration(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn time_is_printed_as_a_duration_and_its_end_as_never() {
        let texts = [Nanos(1_500_000), Nanos::MAX].map(|time| format!("{time:?}"));
        assert_eq!(texts, ["1.5ms", "never"]);
    }

    #[test]
    fn on_a_border_a_deadline_belongs_to_the_tick_that_ends_and_the_clock_to_the_one_that_begins() {
        assert_eq!([10, 11, 20].map(|at| with_tick(10).tick_of_deadline(Nanos(at)).0), [0, 1, 1]);
        assert_eq!([9, 10].map(|at| with_tick(10).tick_of_clock(Nanos(at)).0), [0, 1]);
        assert_eq!([9, 10, 11].map(|at| with_tick(10).end_of_tick(Nanos(at)).0), [10, 10, 20]);
        assert_eq!([0, 19, 20].map(|at| with_tick(10).end_of_pair(Nanos(at)).0), [20, 20, 40]);
    }

    #[test]
    fn the_ticks_on_both_sides_of_a_deadline_are_those_of_the_deadline_and_of_the_clock() {
        for ticks in [with_tick(10), with_tick(1), with_tick(10).with_a_border_at(Nanos(13))] {
            for deadline in (14..60).chain([u64::MAX - 6, u64::MAX - 5, u64::MAX]).map(Nanos) {
                let expected = (ticks.tick_of_deadline(deadline), ticks.tick_of_clock(deadline));
                assert_eq!(ticks.ticks_round(deadline), expected, "{deadline:?} {ticks:?}");
            }
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let ten = with_tick(10);
        assert_eq!(ten.tick_of_deadline(Nanos::ZERO), Tick(0));
        assert_eq!(ten.beginning(ten.tick_of_deadline(Nanos::MAX)), Nanos(u64::MAX - 5));
        assert_eq!(ten.beginning(Tick(u64::MAX)), Nanos::MAX);
        assert_eq!((ten.end_of_tick(Nanos::MAX), ten.end_of_pair(Nanos::MAX)), (Nanos::MAX, Nanos::MAX));
    }

    #[test]
    fn a_tick_is_printed_and_one_of_nothing_or_of_more_than_584_years_is_refused() {
        assert_eq!(format!("{:?}", with_tick(10)), "Resolution { tick: 10ns }");
        assert_eq!(Resolution::new(Duration::ZERO), None);
        assert_eq!(Resolution::new(Duration::MAX), None);
        assert!(Resolution::new(Duration::from_nanos(u64::MAX)).is_some());
    }

    #[test]
    fn a_deadline_is_rounded_up_to_the_widest_grid_that_fits_into_its_tolerance() {
        let rounded = |deadline: u64, tolerance| {
            let deadline = Nanos(1_000 * deadline);
            with_tick(MILLI).round_up_within(deadline, Duration::from_millis(tolerance)).0 / 1_000
        };
        assert_eq!([0, 1].map(|tolerance| rounded(30_100_001, tolerance)), [30_100_001; 2]);
        assert_eq!([2, 3].map(|tolerance| rounded(30_100_001, tolerance)), [30_102_000; 2]);
        assert_eq!([512, 1_000, 1_023].map(|tolerance| rounded(30_100_001, tolerance)), [30_208_000; 3]);
        assert_eq!([1_024, 2_000].map(|tolerance| rounded(30_100_001, tolerance)), [30_720_000; 2]);
        assert_eq!([0, 30_720_000, 30_720_001].map(|at| rounded(at, 1_024)), [0, 30_720_000, 31_744_000]);
    }

    #[test]
    fn a_deadline_that_would_be_rounded_beyond_time_stays_as_it_is() {
        for deadline in [u64::MAX, u64::MAX - 1, u64::MAX - 100] {
            for tolerance in [Duration::from_nanos(1_000), Duration::MAX] {
                assert_eq!(with_tick(10).round_up_within(Nanos(deadline), tolerance), Nanos(deadline));
            }
        }
        assert_eq!(
            with_tick(1).round_up_within(Nanos(u64::MAX - 1), Duration::from_nanos(2)),
            Nanos(u64::MAX - 1)
        );
    }

    #[test]
    fn ticks_with_a_border_at_a_time_begin_and_end_there() {
        for (tick, border) in [(10, 13), (10, 7), (1_000, 123_456_789), (u64::MAX, 5)] {
            let ticks = with_tick(tick).with_a_border_at(Nanos(border));
            assert_eq!(ticks.beginning(ticks.tick_of_clock(Nanos(border))), Nanos(border));
            assert_eq!(ticks.end_of_tick(Nanos(border + 1)), Nanos(border.saturating_add(tick)));
            if border > tick.saturating_mul(2) {
                assert_eq!(
                    ticks.end_of_tick(Nanos(border)),
                    Nanos(border),
                    "it belongs to the tick that ends there"
                );
                assert_eq!(ticks.end_of_pair(Nanos(border)), Nanos(border + 2 * tick));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_rounded_deadline_lies_on_a_wide_grid_and_is_late_by_less_than_the_tolerance(
            (tick, tick_shift) in (1u64.., 0u32..64),
            (deadline, deadline_shift) in (any::<u64>(), 0u32..64),
            (tolerance, tolerance_shift) in (any::<u64>(), 0u32..64),
        ) {
            let tick = (tick >> tick_shift).max(1);
            let (deadline, tolerance) = (deadline >> deadline_shift, tolerance >> tolerance_shift);
            let rounded = with_tick(tick).round_up_within(Nanos(deadline), Duration::from_nanos(tolerance)).0;
            prop_assert!(rounded >= deadline && rounded - deadline < tolerance.max(1));
            // The widest grid is wider than half of the tolerance.
            let width = (1..64).map(|order| u128::from(tick) << order).take_while(|&width| width <= tolerance.into()).last();
            if let Some(width) = width {
                let passes_the_end = u128::from(deadline).div_ceil(width) * width > u64::MAX.into();
                prop_assert!(passes_the_end || u128::from(rounded).is_multiple_of(width));
                prop_assert!(!passes_the_end || rounded == deadline);
            } else {
                prop_assert_eq!(rounded, deadline);
            }
        }
    }
}
