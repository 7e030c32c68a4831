//! Division by a number that is chosen once and divided by all day.

/// A divisor, prepared: one shift if it is a power of two, else two multiplications. A processor's own division
/// takes several times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    value: u64,
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Shift(u32),
    /// 2^64 / value, rounded down.
    Reciprocal(u64),
}

impl Divisor {
    /// # Panics
    /// If `value` is zero.
    pub(crate) const fn new(value: u64) -> Self {
        let by = if value.is_power_of_two() {
            By::Shift(value.trailing_zeros())
        } else {
            // As good as dividing 2^64, which only a power of two divides without remainder.
            By::Reciprocal(u64::MAX / value)
        };
        Self { value, by }
    }

    pub(crate) const fn value(self) -> u64 {
        self.value
    }

    #[inline]
    pub(crate) const fn divide(self, dividend: u64) -> u64 {
        match self.by {
            By::Shift(shift) => dividend >> shift,
            By::Reciprocal(reciprocal) => {
                // The high half of the product. The reciprocal is too small by less than 1, so the product is by
                // less than `dividend`, and the high half by at most 1.
                #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
                let quotient = ((dividend as u128 * reciprocal as u128) >> 64) as u64;
                let remainder = dividend - quotient * self.value;
                if remainder >= self.value { quotient + 1 } else { quotient }
            }
        }
    }

    #[inline]
    pub(crate) const fn remainder(self, dividend: u64) -> u64 {
        match self.by {
            By::Shift(_) => dividend & (self.value - 1),
            By::Reciprocal(_) => dividend - self.divide(dividend) * self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn check(dividend: u64, value: u64) {
        assert_eq!(Divisor::new(value).divide(dividend), dividend / value, "{dividend} / {value}");
        assert_eq!(Divisor::new(value).remainder(dividend), dividend % value, "{dividend} % {value}");
    }

    #[test]
    fn it_divides_as_the_processor_does_at_borders() {
        let near = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
        let values = [1, 2, 3, 20, 64, 1_000, 1_000_000, 1 << 32, 1 << 63, u64::MAX];
        for value in values.into_iter().flat_map(near).filter(|&value| value > 0) {
            let most = u64::MAX / value;
            for multiple in [0, 1, most / 2, most] {
                near(multiple * value).into_iter().for_each(|dividend| check(dividend, value));
            }
            check(u64::MAX, value);
        }
    }

    proptest! {
        #[test]
        fn it_divides_as_the_processor_does(dividend: u64, value in 1u64.., shift in 0u32..64) {
            check(dividend, (value >> shift).max(1));
        }
    }

    #[test]
    #[should_panic(expected = "divide by zero")]
    fn zero_is_refused() {
        let _ = Divisor::new(std::hint::black_box(0));
    }
}
