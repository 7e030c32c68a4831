//! The time of the next attempt after one that failed. The runner's `settle` decides whether there is one.

use std::ops::RangeInclusive;
use std::time::Duration;

/// With it the default covers a weekend.
const TRIES: u32 = 28;

/// How many attempts a timer has, and how long after a failed attempt the next one is made.
///
/// By [default](Default) 28 attempts are made over about three days (65 to 81 hours), so a timer survives a weekend's outage.
/// The delays grow from a second to six hours, with a jitter of 0.2.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use timingwheel_durable::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1)..=Duration::from_secs(60)).jitter(0.0).tries(8);
/// let delays: Vec<u64> = (1..8).map(|attempt| backoff.delay(attempt).as_secs()).collect();
/// assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    delays: RangeInclusive<Duration>,
    jitter: f64,
    tries: u32,
}

impl Backoff {
    /// The first delay, then twice as long each time, up to the last. [`Builder::start`](crate::Builder::start) refuses a
    /// last delay below the first.
    #[must_use]
    pub const fn exponential(delays: RangeInclusive<Duration>) -> Self {
        Self { delays, jitter: 0.2, tries: TRIES }
    }

    /// Always the same delay.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::exponential(delay..=delay)
    }

    /// Shortens each delay by a random share, `share` at most: from 0, for no jitter, to 1. The default is 0.2.
    ///
    /// # Panics
    /// If it is not from 0 to 1.
    #[must_use]
    #[track_caller]
    pub fn jitter(mut self, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a jitter must be from 0 to 1, got {share}");
        self.jitter = share;
        self
    }

    /// How many attempts a handler answers in all, the first included. The default is 28. Zero counts as one.
    ///
    /// An attempt whose process dies or is stopped does not count here. It is made again, 20 times at the most.
    #[must_use]
    pub const fn tries(mut self, tries: u32) -> Self {
        self.tries = if tries == 0 { 1 } else { tries };
        self
    }

    /// How many attempts are made in all.
    #[must_use]
    pub const fn most(&self) -> u32 {
        self.tries
    }

    /// How long after this attempt the next one is. The first attempt is number 1.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let delay = self.delays.start().saturating_mul(1 << doublings).min(*self.delays.end());
        let share = 1.0 - self.jitter * fastrand::f64();
        // Seconds as a fraction may be rounded up, beyond the longest duration.
        Duration::try_from_secs_f64(delay.as_secs_f64() * share).map_or(delay, |shorter| shorter.min(delay))
    }

    /// Tells in words if the delays are not allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (first, last) = (self.delays.start(), self.delays.end());
        if first <= last {
            return Ok(());
        }
        Err(format!("the last delay of a back-off must be at least the first, got {first:?}..={last:?}"))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1)..=Duration::from_secs(6 * 3_600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_never_exceeds_its_limit_and_never_loses_more_than_the_jitter() {
        let (first, last) = (Duration::from_secs(1), Duration::from_secs(100));
        let backoff = Backoff::exponential(first..=last).jitter(0.5);
        for attempt in [1, 2, 7, 8, 40, u32::MAX] {
            let whole = first.saturating_mul(1 << (attempt - 1).min(20)).min(last);
            let delays = [(); 100].map(|()| backoff.delay(attempt));
            for delay in delays {
                assert!(delay <= whole && delay >= whole / 2, "{delay:?} after attempt {attempt}");
            }
            assert!(delays.iter().any(|delay| *delay < whole * 9 / 10), "they are spread: {delays:?}");
        }
    }

    /// From the first attempt to the last, in hours: with the most jitter, and with none.
    fn span(backoff: &Backoff) -> [f64; 2] {
        let sum =
            |backoff: Backoff| -> Duration { (1..backoff.most()).map(|after| backoff.delay(after)).sum() };
        let (least, most) = (sum(backoff.clone().jitter(0.0)).mul_f64(0.8), sum(backoff.clone().jitter(0.0)));
        let with_jitter = sum(backoff.clone());
        assert!((least..=most).contains(&with_jitter), "{with_jitter:?} of {least:?} to {most:?}");
        [least, most].map(|span| (span.as_secs_f64() / 3_600.0).round())
    }

    #[test]
    fn attempts_span_the_time_that_the_documentation_tells() {
        assert_eq!(span(&Backoff::default()), [65.0, 81.0]);
        // As Sidekiq: see the page on coming from it.
        let (seconds, days) = (Duration::from_secs(15), Duration::from_secs(4 * 86_400));
        assert_eq!(
            span(&Backoff::exponential(seconds..=days).tries(20)).map(|hours| (hours / 24.0).round()),
            [17.0, 22.0]
        );
    }

    #[test]
    fn the_longest_delay_is_one_as_any_other() {
        for delay in [Duration::MAX, Duration::MAX - Duration::from_nanos(1), Duration::ZERO] {
            assert_eq!(Backoff::fixed(delay).jitter(0.0).delay(1), delay);
            assert!(Backoff::fixed(delay).jitter(1.0).delay(u32::MAX) <= delay);
        }
    }
}
