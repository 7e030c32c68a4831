//! The schedules that are built in: a fixed rate, a fixed delay, and a back-off.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use crate::schedule::{LastRun, Schedule, When, later};

/// At once.
const NOW: When = When::After(Duration::ZERO);

/// How a schedule of ours begins.
macro_rules! starting {
    ($($schedule:ty),*) => {
        $(impl $schedule {
            /// The first run is due at `instant`.
            #[must_use]
            pub const fn starting_at(mut self, instant: Instant) -> Self {
                self.first = Some(When::At(instant));
                self
            }

            /// The first run is due `delay` after the job is made.
            #[must_use]
            pub const fn starting_after(mut self, delay: Duration) -> Self {
                self.first = Some(When::After(delay));
                self
            }
        })*
    };
}

starting!(FixedRate, FixedDelay, Backoff);

/// A run every period, counted from when the runs are due: it does not drift. The first run is due at once, or
/// [at an instant](Self::starting_at), or [after a delay](Self::starting_after).
///
/// If a run takes longer than the period, the next begins when it has ended. Missed runs are made up for, put off or
/// left out, as the ticks of an [`Interval`](timingwheel::Interval).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{JobsExt, FixedRate, Schedule};
/// use tokio::time::{Instant, MissedTickBehavior};
///
/// let wheel = TimingWheel::new();
/// let start = Instant::now();
/// let rate = FixedRate::new(Duration::from_secs(10)).with_missed_tick_behavior(MissedTickBehavior::Skip);
/// let samples = wheel.run_by(rate.times(3), || async { /* Take a sample. */ });
/// assert_eq!(samples.await.unwrap(), 3);
/// assert_eq!(start.elapsed(), Duration::from_secs(20));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FixedRate {
    period: Duration,
    first: Option<When>,
    missed_tick_behavior: MissedTickBehavior,
}

impl FixedRate {
    /// A run every `period`, the first at once. If a period leads beyond what an [`Instant`] can hold, the next run is
    /// due in 30 years.
    ///
    /// # Panics
    /// If `period` is zero.
    #[must_use]
    #[track_caller]
    pub fn new(period: Duration) -> Self {
        assert!(!period.is_zero(), "the period of a fixed rate must be at least 1ns, got {period:?}");
        Self { period, first: Some(NOW), missed_tick_behavior: MissedTickBehavior::default() }
    }

    /// What happens to missed runs. The default is [`MissedTickBehavior::Burst`].
    #[must_use]
    pub const fn with_missed_tick_behavior(mut self, behavior: MissedTickBehavior) -> Self {
        self.missed_tick_behavior = behavior;
        self
    }
}

impl Schedule for FixedRate {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        let LastRun { due, started, ended, missed } = last;
        if let Some(first) = self.first.take() {
            return Some(first.due(ended));
        }
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

/// A run a fixed time after the end of the run before. The first run is due at once, or
/// [at an instant](Self::starting_at), or [after a delay](Self::starting_after).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{JobsExt, FixedDelay, Schedule};
/// use tokio::time::{Instant, sleep};
///
/// let wheel = TimingWheel::new();
/// let start = Instant::now();
/// let rest = FixedDelay::new(Duration::from_secs(10));
/// let work = wheel.run_by(rest.times(2), || sleep(Duration::from_secs(3)));
/// work.await.unwrap();
/// assert_eq!(start.elapsed(), Duration::from_secs(3 + 10 + 3));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedDelay {
    delay: Duration,
    first: Option<When>,
}

impl FixedDelay {
    /// A run `delay` after the end of the run before, the first at once. If a delay leads beyond what an [`Instant`] can
    /// hold, the next run is due in 30 years. With a delay of zero each run follows the one before at once. Each is a
    /// new task, so others run in between.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub const fn new(delay: Duration) -> Self {
        Self { delay, first: Some(NOW) }
    }
}

impl Schedule for FixedDelay {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        match self.first.take() {
            Some(first) => Some(first.due(last.ended)),
            None => Some(later(last.ended, self.delay)),
        }
    }
}

/// Tries that follow each other ever more slowly: after each run the wait doubles, up to a cap. The first run is
/// due at once, unless a [delay](Self::starting_after) is given.
///
/// To end the tries, let the run answer [`NextRun::Never`](crate::NextRun::Never) when it has worked, or set a number with
/// [`times`](Schedule::times).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{Backoff, JobsExt, NextRun};
/// use tokio::time::Instant;
///
/// let (start, mut tries) = (Instant::now(), 0);
/// let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));
/// let job = TimingWheel::new().run_by(backoff, move || {
///     tries += 1;
///     async move { if tries == 5 { NextRun::Never } else { NextRun::BySchedule } }
/// });
/// assert_eq!(job.await.unwrap(), 5);
/// assert_eq!(start.elapsed(), Duration::from_secs(1 + 2 + 4 + 4));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    wait: Duration,
    cap: Duration,
    first: Option<When>,
    has_jitter: bool,
}

impl Backoff {
    /// Waits `wait` after the first run, and twice as long after each run as after the one before, up to `cap`.
    #[must_use]
    pub const fn new(wait: Duration, cap: Duration) -> Self {
        Self { wait, cap, first: Some(NOW), has_jitter: false }
    }

    /// Full jitter: each wait is chosen by chance from zero to what it would be, also where it is capped. So of many that
    /// fail together no two keep trying together.
    #[must_use]
    pub const fn with_full_jitter(mut self) -> Self {
        self.has_jitter = true;
        self
    }
}

impl Schedule for Backoff {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        if let Some(first) = self.first.take() {
            return Some(first.due(last.ended));
        }
        let wait = self.wait.min(self.cap);
        self.wait = wait.saturating_mul(2);
        Some(later(last.ended, if self.has_jitter { wait.mul_f64(fastrand::f64()) } else { wait }))
    }
}
