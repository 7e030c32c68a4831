//! The unit of grids: a second, halved or doubled until it is at least a tick, but less than two. At a tick of 1 ms it is a
//! 512th of a second.

use crate::wheel::divisor::Divisor;

const SECOND: u64 = 1_000_000_000;

/// What is less than a nanosecond of a unit is dropped.
pub(super) const fn unit_for(tick: u64) -> Divisor {
    let mut unit = SECOND;
    let mut halved = 0;
    while SECOND >> (halved + 1) >= tick {
        halved += 1;
        unit = SECOND >> halved;
    }
    while unit < tick {
        unit = match unit.checked_mul(2) {
            Some(doubled) => doubled,
            None => tick,
        };
    }
    Divisor::new(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn a_unit_is_a_second_halved_or_doubled_and_one_to_two_ticks_long() {
        for (tick, unit) in [
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
            assert_eq!(unit_for(tick).value(), unit, "a tick of {tick} ns");
        }
    }
}
