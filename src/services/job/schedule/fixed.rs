//! Fixed rate and fixed delay.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::{Previous, Schedule};
use crate::platform::clock::LONGEST;

/// A run every period, counted from when the runs are due: it does not drift.
///
/// If a run takes longer than the period, the next begins when it has ended. Runs that were missed are made up for, put
/// off or left out, as the ticks of an [`Interval`](crate::Interval).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel::job::{FixedRate, Schedule};
/// use tokio::time::{Instant, MissedTickBehavior};
///
/// let wheel = TimingWheel::new();
/// let start = Instant::now();
/// let rate = FixedRate::new(Duration::from_secs(10)).with_missed_tick_behavior(MissedTickBehavior::Skip);
/// let samples = wheel.run_by(rate.times(3), || async { /* Take a sample. */ });
/// assert_eq!(samples.await.unwrap(), 3);
/// assert_eq!(start.elapsed(), Duration::from_secs(30));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FixedRate {
    period: Duration,
    first: Option<Instant>,
    missed_tick_behavior: MissedTickBehavior,
}

impl FixedRate {
    /// A run every `period`, the first one period from now. A period that leads beyond what an [`Instant`] can hold is
    /// taken for 30 years.
    ///
    /// # Panics
    /// If `period` is zero.
    #[must_use]
    #[track_caller]
    pub fn new(period: Duration) -> Self {
        assert!(!period.is_zero(), "a fixed rate with a period of {period:?}: it takes at least 1ns");
        Self { period, first: None, missed_tick_behavior: MissedTickBehavior::default() }
    }

    /// The first run at `instant`.
    #[must_use]
    pub const fn starting_at(mut self, instant: Instant) -> Self {
        self.first = Some(instant);
        self
    }

    /// What happens to runs that were missed; [`MissedTickBehavior::Burst`] unless it is set.
    #[must_use]
    pub const fn with_missed_tick_behavior(mut self, behavior: MissedTickBehavior) -> Self {
        self.missed_tick_behavior = behavior;
        self
    }
}

impl Schedule for FixedRate {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let Previous { due, started, missed, .. } = previous;
        match self.missed_tick_behavior {
            MissedTickBehavior::Delay if missed => Some(later(started, self.period)),
            MissedTickBehavior::Skip if missed => {
                let since = started.saturating_duration_since(due).as_nanos() % self.period.as_nanos();
                // Less than what has passed, which 64 bits hold for centuries.
                let since = Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX));
                Some(later(started, self.period.saturating_sub(since)))
            }
            _ => Some(later(due, self.period)),
        }
    }
}

/// An instant that an [`Instant`] cannot hold is 30 years later, as tokio has it.
fn later(instant: Instant, delay: Duration) -> Instant {
    instant.checked_add(delay).unwrap_or_else(|| instant + LONGEST)
}

/// A run a fixed time after the one before has ended.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel::job::{FixedDelay, Schedule};
/// use tokio::time::{Instant, sleep};
///
/// let wheel = TimingWheel::new();
/// let start = Instant::now();
/// let rest = FixedDelay::new(Duration::from_secs(10));
/// let work = wheel.run_by(rest.times(2), || sleep(Duration::from_secs(3)));
/// work.await.unwrap();
/// assert_eq!(start.elapsed(), Duration::from_secs(10 + 3 + 10 + 3));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedDelay {
    delay: Duration,
}

impl FixedDelay {
    /// A run `delay` after the one before has ended, and the first `delay` from now. A delay that leads beyond what an
    /// [`Instant`] can hold is taken for 30 years. With one of zero each run follows the one before at once; in between
    /// the task yields, so that others are run.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub const fn new(delay: Duration) -> Self {
        Self { delay }
    }
}

impl Schedule for FixedDelay {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(later(previous.ended, self.delay))
    }
}
