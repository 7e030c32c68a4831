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
}
