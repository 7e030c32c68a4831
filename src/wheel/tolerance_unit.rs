//! The unit of grids: a second, halved or doubled until it is at least two ticks, but less than four. At a tick of 1 ms it
//! is a 256th of a second.

use crate::wheel::divisor::Divisor;

const SECOND: u64 = 1_000_000_000;

/// What is less than a nanosecond of a unit is dropped.
pub(super) const fn unit_for(two_ticks: u64) -> Divisor {
    let mut unit = SECOND;
    let mut halved = 0;
    while SECOND >> (halved + 1) >= two_ticks {
        halved += 1;
        unit = SECOND >> halved;
    }
    while unit < two_ticks {
        unit = match unit.checked_mul(2) {
            Some(doubled) => doubled,
            None => two_ticks,
        };
    }
    Divisor::new(unit)
}

/// The least number of times that the unit has to be doubled to be whole pairs of ticks; `u32::MAX` if it never is.
pub(super) const fn whole_order(unit: u64, two_ticks: u64) -> u32 {
    let twos = two_ticks.trailing_zeros();
    if unit.is_multiple_of(two_ticks >> twos) { twos.saturating_sub(unit.trailing_zeros()) } else { u32::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn a_unit_is_a_second_halved_or_doubled_until_it_is_two_to_four_ticks() {
        for (two_ticks, unit) in [
            (1, 1),
            (1_000, 1_907),
            (100_000, 122_070),
            (MILLI, 1_953_125),
            (2 * MILLI, 3_906_250),
            (10 * MILLI, 15_625_000),
            (SECOND, SECOND),
            (SECOND + 1, 2 * SECOND),
            (60 * SECOND, 64 * SECOND),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(unit_for(two_ticks).value(), unit, "two ticks of {two_ticks} ns");
        }
    }

    #[test]
    fn a_unit_that_is_doubled_so_often_is_whole_pairs_of_ticks() {
        for (two_ticks, order) in [(1, 0), (2 * MILLI, 6), (10 * MILLI, 4), (SECOND, 0), (100_000, u32::MAX)]
        {
            let unit = unit_for(two_ticks).value();
            assert_eq!(whole_order(unit, two_ticks), order, "two ticks of {two_ticks} ns");
            let is_whole = |order: &u32| (unit << order).is_multiple_of(two_ticks);
            assert_eq!((0..20).find(is_whole).unwrap_or(u32::MAX), order);
        }
    }
}
