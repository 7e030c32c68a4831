//! The limits of a health check.

use std::time::Duration;

use super::{Exceeded, Unhealthy};
use crate::handle::timing_wheel::TimingWheel;
use crate::telemetry::histogram::{assert_quantile, told_of};
use crate::telemetry::stats::Stats;

/// Limits that a healthy wheel does not exceed, for [`TimingWheel::health`] and [`Stats::check`].
///
/// A value equal to its limit is healthy. Without a limit any value is healthy. A wheel that has ended is never healthy.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), timingwheel::BuildError> {
/// use std::time::Duration;
/// use timingwheel::{TimingWheel, monitor::{Exceeded, Limits}};
///
/// let wheel = TimingWheel::builder().max_pending(1).build()?;
/// let _first = wheel.try_sleep(Duration::from_secs(1)).expect("the first");
/// let refused = wheel.try_sleep(Duration::from_secs(1));
/// assert!(refused.is_err());
///
/// let unhealthy = wheel.health(&Limits::new().pending(10).refused(0)).unwrap_err();
/// assert_eq!(unhealthy.exceeded(), [Exceeded::Refused { refused: 1, limit: 0 }]);
/// # Ok(())
/// # }
/// ```
#[must_use = "limits do nothing until a wheel is checked against them"]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    pending: Option<usize>,
    lateness: Vec<(f64, Duration)>,
    lock_hold: Option<Duration>,
    overdue: Option<Duration>,
    refused: Option<u64>,
    stalls: Option<u64>,
    wakers_panicked: Option<u64>,
    jobs_panicked: Option<u64>,
}

impl Limits {
    /// No limits: only a wheel that has ended is unhealthy.
    pub const fn new() -> Self {
        Self {
            pending: None,
            lateness: Vec::new(),
            lock_hold: None,
            overdue: None,
            refused: None,
            stalls: None,
            wakers_panicked: None,
            jobs_panicked: None,
        }
    }

    /// The limit for [`Stats::pending`], in timers.
    pub const fn pending(mut self, timers: usize) -> Self {
        self.pending = Some(timers);
        self
    }

    /// The limit for a [quantile](super::Histogram::quantile) of [`Stats::lateness`]. The quantile 0.99 means that 99 of
    /// 100 timers have to be in time. A tick is part of the lateness. If no timer has fired, none was late.
    ///
    /// Call this several times to set limits for several quantiles.
    ///
    /// # Precision
    /// A lateness within the limit is always healthy. A longer one is healthy too if it falls into the same bucket of the
    /// histogram, so a limit may be exceeded by up to a sixteenth: 5 ms by 0.24 ms.
    ///
    /// # Panics
    /// If `quantile` is not from 0 to 1.
    #[track_caller]
    pub fn lateness(mut self, quantile: f64, lateness: Duration) -> Self {
        assert_quantile(quantile);
        self.lateness.push((quantile, lateness));
        self
    }

    /// The limit for the longest of [`Stats::lock_holds`].
    ///
    /// # Precision
    /// As [`lateness`](Self::lateness).
    pub const fn lock_hold(mut self, hold: Duration) -> Self {
        self.lock_hold = Some(hold);
        self
    }

    /// The limit for [`Stats::overdue`], which grows while nobody turns the wheel.
    pub const fn overdue(mut self, overdue: Duration) -> Self {
        self.overdue = Some(overdue);
        self
    }

    /// The limit for [`Stats::refused`], in timers.
    pub const fn refused(mut self, timers: u64) -> Self {
        self.refused = Some(timers);
        self
    }

    /// The limit for [`Stats::stalls`].
    pub const fn stalls(mut self, stalls: u64) -> Self {
        self.stalls = Some(stalls);
        self
    }

    /// The limit for [`Stats::wakers_panicked`].
    pub const fn wakers_panicked(mut self, wakers: u64) -> Self {
        self.wakers_panicked = Some(wakers);
        self
    }

    /// The limit for [`Stats::jobs_panicked`].
    pub const fn jobs_panicked(mut self, jobs: u64) -> Self {
        self.jobs_panicked = Some(jobs);
        self
    }

    /// All limits that are exceeded.
    fn exceeded_by<'a>(&'a self, stats: &'a Stats) -> impl Iterator<Item = Exceeded> + 'a {
        let Self { pending, lateness, lock_hold, overdue, refused, stalls, wakers_panicked, jobs_panicked } =
            self;
        // A value in the same bucket as the limit may be within it.
        let above = |told: Option<Duration>, limit| told.filter(|&told| told > told_of(limit));
        let ended = stats.ended.then_some(Exceeded::Ended);
        let overdue = overdue.filter(|&limit| stats.overdue > limit);
        let overdue = overdue.map(|limit| Exceeded::Overdue { overdue: stats.overdue, limit });
        let pending = pending.filter(|&limit| stats.pending > limit);
        let pending = pending.map(|limit| Exceeded::Pending { pending: stats.pending, limit });
        let lateness = lateness.iter().filter_map(move |&(quantile, limit)| {
            let lateness = above(stats.lateness.quantile(quantile), limit)?;
            Some(Exceeded::Lateness { quantile, lateness, limit })
        });
        let lock_hold = lock_hold.and_then(|limit| {
            above(stats.lock_holds.max(), limit).map(|longest| Exceeded::LockHold { longest, limit })
        });
        let refused = refused.filter(|&limit| stats.refused > limit);
        let refused = refused.map(|limit| Exceeded::Refused { refused: stats.refused, limit });
        let stalls = stalls.filter(|&limit| stats.stalls > limit);
        let stalls = stalls.map(|limit| Exceeded::Stalls { stalls: stats.stalls, limit });
        let wakers = wakers_panicked.filter(|&limit| stats.wakers_panicked > limit);
        let wakers = wakers.map(|limit| Exceeded::WakersPanicked { panicked: stats.wakers_panicked, limit });
        let jobs = jobs_panicked.filter(|&limit| stats.jobs_panicked > limit);
        let jobs = jobs.map(|limit| Exceeded::JobsPanicked { panicked: stats.jobs_panicked, limit });
        let one_each = [ended, overdue, pending, lock_hold, refused, stalls, wakers, jobs];
        one_each.into_iter().flatten().chain(lateness)
    }
}

impl Stats {
    /// Compares these values with `limits`.
    ///
    /// # Errors
    /// If a limit is exceeded. The error names each such value and its limit.
    ///
    /// # Panics
    /// Never.
    pub fn check(&self, limits: &Limits) -> Result<(), Unhealthy> {
        let exceeded: Vec<Exceeded> = limits.exceeded_by(self).collect();
        if exceeded.is_empty() { Ok(()) } else { Err(Unhealthy::new(exceeded)) }
    }
}

impl TimingWheel {
    /// Compares the wheel's [`stats`](Self::stats), which count from its beginning, with `limits`. To judge by what
    /// happened since the last check, use [`Stats::since`] and [`Stats::check`], as [`monitor`](crate::monitor) shows.
    ///
    /// This locks each shard for a moment, one after the other, as [`stats`](Self::stats) does.
    ///
    /// # Errors
    /// If a limit is exceeded. The error names each such value and its limit.
    ///
    /// # Panics
    /// Never.
    pub fn health(&self, limits: &Limits) -> Result<(), Unhealthy> {
        self.stats().check(limits)
    }
}
