//! A histogram of durations: quantiles of any number of them, in constant memory.
//!
//! ```text
//!   nanoseconds   0 1 2 .. 15 16 .. 31 | 32 34 36 .. 62 | 64 68 72 .. 124 | 128 ..
//!   buckets       one for each         | 16, 2 ns wide  | 16, 4 ns wide   | 16, 8 ns wide ..
//! ```
//!
//! Each octave is cut into 16 buckets, so a bucket is at most a sixteenth as wide as the durations in it. Gil Tene's
//! `HdrHistogram` has the same scheme.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::wheel::Nanos;

/// The number of buckets in an octave, as a power of two.
const OCTAVE_BITS: u32 = 4;
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// Enough for 64 bits. The lowest durations take as many buckets as one more octave would.
const BUCKETS: usize = (u64::BITS - OCTAVE_BITS + 1) as usize * OCTAVE;

/// A histogram of durations, from [`Stats`](crate::Stats).
///
/// It spans 64 bits of nanoseconds. Each duration below 32 ns has a bucket of its own. Above that, buckets are a sixteenth
/// of an octave wide. A histogram always takes 7.8 kB.
///
/// # Precision
///
/// A histogram tells the longest duration of a bucket. That is never less than the true one, and at most a sixteenth more.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use timingwheel::Histogram;
///
/// let mut lateness = Histogram::default();
/// (1..=100).for_each(|millis| lateness.record(Duration::from_millis(millis)));
/// let p99 = lateness.quantile(0.99).expect("not empty");
/// assert!((99.0..=99.0 * 17.0 / 16.0).contains(&(p99.as_secs_f64() * 1e3)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Histogram {
    /// Adds a duration. The wheel records its own; use this to test code that judges by a histogram.
    pub fn record(&mut self, duration: Duration) {
        self.recorder(u64::MAX)(Nanos::from_duration(duration).0);
    }

    /// Returns a function that adds a duration in nanoseconds, or `most` if that is less. It takes few instructions,
    /// because a turn calls it for each timer that fires.
    #[inline]
    pub(crate) fn recorder(&mut self, most: u64) -> impl FnMut(u64) {
        let counts = &mut *self.counts;
        move |nanos| counts[bucket_of(nanos.min(most))] += 1
    }

    /// Copies without an allocation, because the caller holds a lock.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        *self.counts = *other.counts;
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration that a share `quantile` of all durations does not exceed: 0.5 for the median, 0.99 for 99 %, 1 for the
    /// longest, 0 for the shortest. `None` if the histogram is empty.
    ///
    /// # Panics
    /// If `quantile` is not from 0 to 1.
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        assert_quantile(quantile);
        let count = self.count();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and at most the count, apart from a rounding that does not matter"
        )]
        // The next number below, because a product that should be whole may come out a little above.
        let rank = ((quantile.next_down() * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut passed = 0;
        let reaches = |&(_, &count): &(usize, &u64)| {
            passed += count;
            passed >= rank
        };
        let (bucket, _) = self.counts.iter().enumerate().find(reaches)?;
        Some(durations(bucket)).map(|durations| *durations.end())
    }

    /// The longest duration, or `None` if the histogram is empty.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.quantile(1.0)
    }

    /// The buckets that are not empty, from short to long: their range of durations, and how many fell into it.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<Duration>, u64)> {
        let buckets = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        buckets.map(|(bucket, &count)| (durations(bucket), count))
    }

    /// How many durations were at most `longest`. The bucket of `longest` itself counts only if `longest` is its longest
    /// duration. So the count is exact if `longest` is a nanosecond less than a power of two.
    #[must_use]
    pub fn count_up_to(&self, longest: Duration) -> u64 {
        let Nanos(nanos) = Nanos::from_duration(longest);
        let bucket = bucket_of(nanos);
        let whole = bucket + usize::from(last_of(bucket) == nanos);
        self.counts[..whole].iter().sum()
    }

    /// The durations recorded after `earlier`, which is an earlier copy of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&*earlier.counts) {
            // Another wheel's histogram may hold more.
            *count = count.saturating_sub(*before);
        }
        since
    }
}

/// The duration that a histogram tells for this one: the longest in the same bucket.
pub(crate) fn told_of(duration: Duration) -> Duration {
    Duration::from_nanos(last_of(bucket_of(Nanos::from_duration(duration).0)))
}

/// # Panics
/// If `quantile` is not from 0 to 1.
#[track_caller]
pub(crate) fn assert_quantile(quantile: f64) {
    assert!((0.0..=1.0).contains(&quantile), "quantile must be 0 to 1, got {quantile}");
}

/// An empty histogram.
impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// The bucket of a duration of `nanos`.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "what is shifted has five bits")]
const fn bucket_of(nanos: u64) -> usize {
    // The lowest octaves have fewer values than buckets, so they count as one.
    let width_bits = (nanos | (2 * OCTAVE as u64 - 1)).ilog2() - OCTAVE_BITS;
    ((width_bits as usize) << OCTAVE_BITS) + (nanos >> width_bits) as usize
}

/// How wide a bucket is, as a power of two.
const fn width_bits(bucket: usize) -> usize {
    (bucket >> OCTAVE_BITS).saturating_sub(1)
}

/// The shortest duration in a bucket, in nanoseconds.
const fn first_of(bucket: usize) -> u64 {
    let width_bits = width_bits(bucket);
    ((bucket - (width_bits << OCTAVE_BITS)) as u64) << width_bits
}

/// The longest duration in a bucket, in nanoseconds.
const fn last_of(bucket: usize) -> u64 {
    // In this order, because the last bucket ends with the last number.
    first_of(bucket) + ((1 << width_bits(bucket)) - 1)
}

const fn durations(bucket: usize) -> RangeInclusive<Duration> {
    Duration::from_nanos(first_of(bucket))..=Duration::from_nanos(last_of(bucket))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// All magnitudes alike.
    fn nanos() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..u64::BITS).prop_map(|(nanos, magnitude)| nanos >> magnitude)
    }

    fn histogram(all: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        all.iter().for_each(|&nanos| histogram.record(Duration::from_nanos(nanos)));
        histogram
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap_up_to_the_last_number() {
        assert_eq!(first_of(0), 0);
        for bucket in 1..BUCKETS {
            assert_eq!(first_of(bucket), last_of(bucket - 1) + 1, "{bucket}");
        }
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn an_empty_one_has_no_quantiles_and_no_buckets() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.quantile(0.5), empty.max()), (0, None, None));
        assert_eq!(empty.buckets().count(), 0);
    }

    #[test]
    #[should_panic(expected = "quantile must be 0 to 1, got 99")]
    fn a_quantile_in_percent_is_refused() {
        let _ = Histogram::default().quantile(99.0);
    }

    proptest! {
        #[test]
        fn a_duration_falls_into_the_bucket_that_says_so_and_is_a_sixteenth_as_wide(nanos in nanos()) {
            let bucket = bucket_of(nanos);
            prop_assert!((first_of(bucket)..=last_of(bucket)).contains(&nanos));
            prop_assert!(last_of(bucket) - first_of(bucket) <= nanos / 16);
        }

        #[test]
        fn a_quantile_is_never_below_the_exact_one_and_a_sixteenth_above_at_the_most(
            mut all in vec(nanos(), 1..200),
            rank in any::<Index>(),
        ) {
            all.sort_unstable();
            let rank = rank.index(all.len() + 1);
            let told = histogram(&all).quantile(rank as f64 / all.len() as f64).expect("not empty").as_nanos();
            let exact = u128::from(all[rank.saturating_sub(1)]);
            prop_assert!((exact..=exact + exact / 16).contains(&told), "{told} for {exact}");
        }

        #[test]
        fn buckets_hold_all_there_is_in_order(all in vec(nanos(), 0..200)) {
            let histogram = histogram(&all);
            let buckets: Vec<_> = histogram.buckets().collect();
            prop_assert!(buckets.is_sorted_by(|(a, _), (b, _)| a.end() < b.start()));
            for (durations, count) in &buckets {
                let within = all.iter().filter(|&&nanos| durations.contains(&Duration::from_nanos(nanos)));
                prop_assert_eq!(within.count() as u64, *count);
            }
            prop_assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), all.len() as u64);
            prop_assert_eq!(histogram.count(), all.len() as u64);
        }

        #[test]
        fn what_is_up_to_a_nanosecond_less_than_a_power_of_two_is_counted_exactly(
            all in vec(nanos(), 0..200),
            power in 0..u64::BITS,
        ) {
            let longest = (1 << power) - 1;
            let exact = all.iter().filter(|&&nanos| nanos <= longest).count();
            prop_assert_eq!(histogram(&all).count_up_to(Duration::from_nanos(longest)), exact as u64);
        }

        #[test]
        fn what_came_since_is_what_was_recorded_after(before in vec(nanos(), 0..50), after in vec(nanos(), 0..50)) {
            let earlier = histogram(&before);
            let both = histogram(&[before, after.clone()].concat());
            prop_assert_eq!(both.since(&earlier), histogram(&after));
        }
    }
}
