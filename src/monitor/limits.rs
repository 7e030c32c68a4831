//! The limits of a health check.

use std::time::Duration;

use crate::telemetry::histogram::assert_quantile;

/// Limits that a healthy wheel does not exceed, for [`TimingWheel::health`](crate::TimingWheel::health) and
/// [`Stats::check`](crate::Stats::check).
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
    pub(super) pending: Option<usize>,
    pub(super) lateness: Vec<(f64, Duration)>,
    pub(super) lock_hold: Option<Duration>,
    pub(super) overdue: Option<Duration>,
    pub(super) refused: Option<u64>,
    pub(super) stalls: Option<u64>,
    pub(super) wakers_panicked: Option<u64>,
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
        }
    }

    /// The limit for [`Stats::pending`](crate::Stats::pending), in timers.
    pub const fn pending(mut self, timers: usize) -> Self {
        self.pending = Some(timers);
        self
    }

    /// The limit for a [quantile](super::Histogram::quantile) of [`Stats::lateness`](crate::Stats::lateness). The
    /// quantile 0.99 means that 99 of 100 timers have to be in time. A tick is part of the lateness. If no timer has fired,
    /// none was late.
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

    /// The limit for the longest of [`Stats::lock_holds`](crate::Stats::lock_holds).
    ///
    /// # Precision
    /// As [`lateness`](Self::lateness).
    pub const fn lock_hold(mut self, hold: Duration) -> Self {
        self.lock_hold = Some(hold);
        self
    }

    /// The limit for [`Stats::overdue`](crate::Stats::overdue), which grows while nobody turns the wheel.
    pub const fn overdue(mut self, overdue: Duration) -> Self {
        self.overdue = Some(overdue);
        self
    }

    /// The limit for [`Stats::refused`](crate::Stats::refused), in timers.
    pub const fn refused(mut self, timers: u64) -> Self {
        self.refused = Some(timers);
        self
    }

    /// The limit for [`Stats::stalls`](crate::Stats::stalls).
    pub const fn stalls(mut self, stalls: u64) -> Self {
        self.stalls = Some(stalls);
        self
    }

    /// The limit for [`Stats::wakers_panicked`](crate::Stats::wakers_panicked).
    pub const fn wakers_panicked(mut self, wakers: u64) -> Self {
        self.wakers_panicked = Some(wakers);
        self
    }
}
