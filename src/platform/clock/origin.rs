//! Converting instants to nanoseconds, without std's subtraction.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::Nanos;

const NANOS_IN_A_SECOND: u64 = 1_000_000_000;

/// The seconds and nanoseconds of which an [`Instant`] is made.
///
/// std shows these parts only to a hasher. It does not document this, so an [`Origin`] tries whether it is so. The
/// gain: std's subtraction is a call of some 60 instructions, and each timer needs one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    seconds: i64,
    nanos: u32,
}

impl Parts {
    #[inline]
    fn of(instant: Instant) -> Self {
        let mut parts = Self::default();
        instant.hash(&mut parts);
        parts
    }
}

/// Takes the parts that instants have, on whatever platform: signed or unsigned seconds, and nanoseconds.
impl Hasher for Parts {
    #[inline]
    fn write_i64(&mut self, seconds: i64) {
        self.seconds = seconds;
    }

    #[inline]
    fn write_u64(&mut self, seconds: u64) {
        self.seconds = seconds.cast_signed();
    }

    #[inline]
    fn write_u32(&mut self, nanos: u32) {
        self.nanos = nanos;
    }

    /// Instants that hash anything else are not made of these parts.
    fn write(&mut self, _bytes: &[u8]) {
        *self = Self::default();
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// The instant from which a clock counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    instant: Instant,
    /// `None` if instants are not made of such parts.
    parts: Option<Parts>,
}

impl Origin {
    pub(super) fn new(instant: Instant) -> Self {
        let counted = Self { instant, parts: Some(Parts::of(instant)) };
        // These cross a second, carry from one part to the other, and change each part alone.
        let tried = [0, 1, 999_999_999, 1_000_000_000, 1_999_999_999, 86_400_123_456_789, u64::MAX / 2];
        let agrees = tried.into_iter().map(Duration::from_nanos).all(|since| {
            [instant.checked_add(since), instant.checked_sub(since)]
                .into_iter()
                .flatten()
                .all(|other| counted.nanos(other) == counted.nanos_by_std(other))
        });
        if agrees { counted } else { Self { instant, parts: None } }
    }

    pub(super) const fn instant(self) -> Instant {
        self.instant
    }

    /// The nanoseconds from the origin to `instant`: zero if `instant` is before the origin, `MAX` if it is beyond
    /// reach.
    #[inline]
    pub(super) fn nanos(self, instant: Instant) -> Nanos {
        let Some(origin) = self.parts else { return self.nanos_by_std(instant) };
        let parts = Parts::of(instant);
        match u64::try_from(parts.seconds.wrapping_sub(origin.seconds)) {
            // A second less than 64 bits hold leaves room for the nanoseconds.
            Ok(seconds) if seconds < u64::MAX / NANOS_IN_A_SECOND => {
                let since_second = seconds * NANOS_IN_A_SECOND + u64::from(parts.nanos);
                Nanos(since_second.saturating_sub(origin.nanos.into()))
            }
            _ => self.nanos_by_std(instant),
        }
    }

    #[cold]
    fn nanos_by_std(self, instant: Instant) -> Nanos {
        Nanos::from_duration(instant.saturating_duration_since(self.instant))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn instants_are_made_of_seconds_and_nanoseconds() {
        assert!(Origin::new(Instant::now()).parts.is_some(), "subtraction by std is slower");
    }

    #[test]
    fn parts_are_seconds_of_either_sign_and_nanoseconds_and_nothing_else() {
        let parts_of = |hashed: &dyn Fn(&mut Parts)| {
            let mut parts = Parts::default();
            hashed(&mut parts);
            (parts.seconds, parts.nanos)
        };
        assert_eq!(parts_of(&|parts| (-5_i64, 7_u32).hash(parts)), (-5, 7));
        assert_eq!(parts_of(&|parts| (5_u64, 7_u32).hash(parts)), (5, 7));
        assert_eq!(parts_of(&|parts| (5_u64, 7_u32, 9_u8).hash(parts)), (0, 0));
    }

    #[test]
    fn instants_about_the_last_that_64_bits_hold_are_as_std_counts_them() {
        let origin = Origin::new(Instant::now());
        let last = u64::MAX / NANOS_IN_A_SECOND;
        // Whatever the origin's nanoseconds are, one of these passes the end without a carry into the seconds.
        for since in
            [last - 1, last].into_iter().flat_map(|seconds| [0, 250, 500, 750].map(|ms| (seconds, ms)))
        {
            let since = Duration::from_secs(since.0) + Duration::from_millis(since.1);
            if let Some(instant) = origin.instant.checked_add(since) {
                assert_eq!(origin.nanos(instant), Nanos::from_duration(since), "{since:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn all_is_as_std_counts_it(from: (u32, u32), to: (u64, u32)) {
            let base = Instant::now();
            let instant = |seconds, nanos: u32| base.checked_add(Duration::new(seconds, nanos % 1_000_000_000));
            let origin = Origin::new(instant(from.0.into(), from.1).expect("136 years at the most"));
            // The shift makes times of all magnitudes.
            for shift in [0, 24, 32, 40] {
                if let Some(instant) = instant(to.0 >> shift, to.1) {
                    prop_assert_eq!(origin.nanos(instant), origin.nanos_by_std(instant));
                }
            }
        }
    }
}
