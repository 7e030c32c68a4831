//! The health check: its limits, and which of them a wheel exceeds.

use std::{error, fmt, time::Duration};

use crate::handle::TimingWheel;
use crate::telemetry::histogram::told_of;
use crate::telemetry::stats::Stats;

/// Limits that a healthy wheel does not exceed, for [`TimingWheel::health`](crate::TimingWheel::health) and
/// [`Stats::check`](crate::Stats::check).
///
/// A value equal to its limit is healthy. Without a limit any value is healthy. A wheel that has ended is never healthy,
/// nor is one without its watchdog. Begin with [`Default`], which sets no limit.
///
/// # Precision
/// A lateness within its limit is always healthy. A longer one is healthy too if it falls into the same bucket of the
/// histogram, so a limit may be exceeded by up to a sixteenth: 5 ms by 0.24 ms.
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
/// let mut limits = Limits::default();
/// limits.pending = Some(10);
/// limits.refused = Some(0);
/// let unhealthy = wheel.health(&limits).unwrap_err();
/// assert!(unhealthy.exceeds(Exceeded::Refused));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// For [`Stats::pending`](crate::Stats::pending), in timers.
    pub pending: Option<usize>,
    /// For [quantiles](crate::Histogram::quantile) of [`Stats::lateness`](crate::Stats::lateness). The quantile 0.99 means
    /// that 99 of 100 timers have to be in time. A tick is part of the lateness. If no timer has fired, none was late.
    pub lateness: Vec<(f64, Duration)>,
    /// For [`Stats::overdue`](crate::Stats::overdue), which grows while nobody turns the wheel.
    pub overdue: Option<Duration>,
    /// For [`Stats::refused`](crate::Stats::refused), in timers.
    pub refused: Option<u64>,
    /// For [`Stats::stalls`](crate::Stats::stalls).
    pub stalls: Option<u64>,
    /// For [`Stats::wakers_panicked`](crate::Stats::wakers_panicked).
    pub wakers_panicked: Option<u64>,
}

/// What is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exceeded {
    /// The wheel has ended. No limit has to be set for this.
    Ended,
    /// The system gives no thread for the watchdog, so a worker that blocks may hold up timers. No limit has to be set for
    /// this.
    Unwatched,
    /// Nobody turns the wheel, though it is due.
    Overdue,
    /// Too many timers are pending.
    Pending,
    /// Too many timers were refused, because the wheel was full.
    Refused,
    /// Turns were late too often.
    Stalls,
    /// Too many wakers panicked.
    WakersPanicked,
    /// Too many timers fired too late.
    Lateness,
}

/// The error of [`TimingWheel::health`](crate::TimingWheel::health). Its text names each value that exceeds its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    exceeded: Vec<(Exceeded, String)>,
}

impl Unhealthy {
    /// Whether this is exceeded.
    #[must_use]
    pub fn exceeds(&self, what: Exceeded) -> bool {
        self.exceeded.iter().any(|(exceeded, _)| *exceeded == what)
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.exceeded.iter().map(|(_, text)| text.as_str()).collect();
        write!(f, "the timing wheel is not healthy: {}", texts.join("; "))
    }
}

impl error::Error for Unhealthy {}

impl Stats {
    /// Compares these values with `limits`.
    ///
    /// # Errors
    /// If a limit is exceeded. The error names each such value and its limit.
    ///
    /// # Panics
    /// If a quantile of [`Limits::lateness`] is not from 0 to 1.
    #[track_caller]
    pub fn check(&self, limits: &Limits) -> Result<(), Unhealthy> {
        use Exceeded::{Ended, Lateness, Overdue, Pending, Refused, Stalls, Unwatched, WakersPanicked};

        let mut exceeded = Vec::new();
        if self.ended {
            exceeded.push((Ended, "it has ended".to_owned()));
        }
        if self.unwatched {
            exceeded.push((Unwatched, "the system gives no thread for its watchdog".to_owned()));
        }
        if let Some(limit) = limits.overdue
            && self.overdue > limit
        {
            let text = format!("it is overdue by {:?}, the limit is {limit:?}", self.overdue);
            exceeded.push((Overdue, text));
        }
        let most_pending = limits.pending.map(|limit| limit as u64);
        for (what, count, limit, text) in [
            (Pending, self.pending as u64, most_pending, "timers are pending"),
            (Refused, self.refused, limits.refused, "timers were refused"),
            (Stalls, self.stalls, limits.stalls, "turns were late"),
            (WakersPanicked, self.wakers_panicked, limits.wakers_panicked, "wakers panicked"),
        ] {
            if let Some(limit) = limit
                && count > limit
            {
                exceeded.push((what, format!("{count} {text}, the limit is {limit}")));
            }
        }
        for &(quantile, limit) in &limits.lateness {
            if let Some(late) = self.lateness.quantile(quantile).filter(|&late| late > told_of(limit)) {
                // Rounded, because 0.999 in binary is not exactly 99.9 %.
                let percent = (quantile * 100e6).round() / 1e6;
                let text =
                    format!("{percent} % of timers were late by up to {late:?}, the limit is {limit:?}");
                exceeded.push((Lateness, text));
            }
        }
        if exceeded.is_empty() { Ok(()) } else { Err(Unhealthy { exceeded }) }
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
    /// As [`Stats::check`].
    #[track_caller]
    pub fn health(&self, limits: &Limits) -> Result<(), Unhealthy> {
        self.stats().check(limits)
    }
}
