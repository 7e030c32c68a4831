//! Ticks, and how time is rounded to them. [`tolerance_grid`](super::tolerance_grid) rounds to wider grids.
//!
//! ```text
//!   tick 0           tick 1           tick 2
//! |----------------|----------------|----------------|--> nanoseconds since the origin
//! 0                w               2w               3w
//!                     ^ now: tick 1
//!                          ^ deadline: tick 1, due at 2w at the latest
//! ```
//!
//! A tick holds the deadlines after its beginning, up to and including its end. So a deadline rounds
//! **up** (it may have to wait for the end of its tick) and the clock rounds **down** (a tick that has
//! begun is not over): no entry can be handed out before its deadline.

use std::fmt;
use std::time::Duration;

use crate::wheel::divisor::Divisor;
use crate::wheel::nanos::Nanos;
use crate::wheel::tolerance_unit::{unit_for, whole_order};

/// The number of a tick, counted from the origin: the unit in which slots are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(pub(crate) u64);

/// How long one tick is: the width of a slot of level 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Resolution {
    pub(super) tick_nanos: Divisor,
    /// Two ticks. At the ends of these lie the points of all grids.
    pub(super) two_ticks: Divisor,
    /// How far apart the points of the finest grid are.
    pub(super) unit: Divisor,
    /// The points of grids of this order and of wider ones lie at the ends of two ticks as they are.
    pub(super) whole_order: u32,
}

impl Resolution {
    /// A tick of `tick`, or `None` unless it is from 1 ns to `u64::MAX` ns long.
    #[must_use]
    pub fn new(tick: Duration) -> Option<Self> {
        match u64::try_from(tick.as_nanos()) {
            Err(_) | Ok(0) => None,
            Ok(tick_nanos) => {
                let two_ticks = tick_nanos.checked_mul(2).unwrap_or(tick_nanos);
                let [tick_nanos, two_ticks] = [tick_nanos, two_ticks].map(Divisor::new);
                let unit = unit_for(two_ticks.value());
                let whole_order = whole_order(unit.value(), two_ticks.value());
                Some(Self { tick_nanos, two_ticks, unit, whole_order })
            }
        }
    }

    /// How long a tick is.
    #[must_use]
    pub const fn tick(self) -> Duration {
        Duration::from_nanos(self.tick_nanos.value())
    }

    /// The tick that a deadline lies in. It rounds up: a deadline on a border belongs to the tick that
    /// ends there, and is due at the end of its tick at the latest.
    #[inline]
    pub(crate) const fn tick_of_deadline(self, deadline: Nanos) -> Tick {
        // Saturating because the origin lies in no tick; as a deadline it is always in the past.
        Tick(self.tick_nanos.divide(deadline.0.saturating_sub(1)))
    }

    /// The tick that the clock is in. It rounds down: every earlier tick is over.
    pub(crate) const fn tick_of_clock(self, now: Nanos) -> Tick {
        Tick(self.tick_nanos.divide(now.0))
    }

    /// The end of the tick that a deadline lies in.
    pub(crate) const fn end_of_tick(self, deadline: Nanos) -> Nanos {
        self.end(self.beginning(self.tick_of_deadline(deadline)))
    }

    /// The end of the tick that begins at `beginning`.
    pub(crate) const fn end(self, beginning: Nanos) -> Nanos {
        Nanos(beginning.0.saturating_add(self.tick_nanos.value()))
    }

    /// The end of the pair of ticks that the clock is in, as pairs are counted from the origin.
    pub(crate) const fn end_of_pair(self, now: Nanos) -> Nanos {
        let pair = self.two_ticks.divide(now.0);
        Nanos(pair.saturating_add(1).saturating_mul(self.two_ticks.value()))
    }

    /// The beginning of a tick.
    pub(crate) const fn beginning(self, tick: Tick) -> Nanos {
        // Saturating for the tick after the last; every tick that a point lies in begins below `MAX`.
        Nanos(tick.0.saturating_mul(self.tick_nanos.value()))
    }
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolution").field("tick", &self.tick()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> Resolution {
        Resolution::new(Duration::from_nanos(10)).expect("ten is in range")
    }

    #[test]
    fn a_deadline_on_a_border_belongs_to_the_tick_that_ends_there() {
        assert_eq!(ten().tick_of_deadline(Nanos(10)), Tick(0));
        assert_eq!(ten().tick_of_deadline(Nanos(11)), Tick(1));
        assert_eq!(ten().tick_of_deadline(Nanos(20)), Tick(1));
    }

    #[test]
    fn a_clock_on_a_border_is_in_the_tick_that_begins_there() {
        assert_eq!(ten().tick_of_clock(Nanos(9)), Tick(0));
        assert_eq!(ten().tick_of_clock(Nanos(10)), Tick(1));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        assert_eq!(ten().tick_of_deadline(Nanos::ZERO), Tick(0));
        assert_eq!(ten().beginning(ten().tick_of_deadline(Nanos::MAX)), Nanos(u64::MAX - 5));
        assert_eq!(ten().beginning(Tick(u64::MAX)), Nanos::MAX);
    }

    #[test]
    fn a_resolution_is_printed_with_its_tick() {
        assert_eq!(format!("{:?}", ten()), "Resolution { tick: 10ns }");
    }

    #[test]
    fn a_tick_of_nothing_or_of_more_than_584_years_is_refused() {
        assert_eq!(Resolution::new(Duration::ZERO), None);
        assert_eq!(Resolution::new(Duration::MAX), None);
        assert!(Resolution::new(Duration::from_nanos(u64::MAX)).is_some());
    }
}
