//! Time as the wheel counts it.

use std::fmt;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_moved_as_far_as_there_is_time() {
        let nanos = Duration::from_nanos;
        assert_eq!((Nanos(5).after(nanos(10)), Nanos(5).before(nanos(3))), (Nanos(15), Nanos(2)));
        assert_eq!((Nanos(5).after(nanos(u64::MAX)), Nanos(5).before(nanos(10))), (Nanos::MAX, Nanos::ZERO));
    }

    #[test]
    fn what_is_beyond_the_end_of_time_is_at_its_end() {
        assert_eq!(Nanos::from_duration(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn time_is_printed_as_a_duration_and_its_end_as_never() {
        let texts = [Nanos(1_500_000), Nanos::MAX].map(|time| format!("{time:?}"));
        assert_eq!(texts, ["1.5ms", "never"]);
    }
}
