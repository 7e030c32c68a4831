//! The only reader of the clock.

mod origin;

use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::tick::Nanos;
use origin::Origin;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest delay: 30 years, as in tokio. `timingwheel::time` shortens longer sleeps and periods to it, and intervals
/// shorten a longer time to their reset.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * YEAR.as_secs());

/// std's clock, which nobody can pause, to measure how long something takes.
pub(crate) fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}

/// A wheel's clock. It counts from an origin of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Origin,
    /// Whether this is tokio's clock, which tests can pause on runtimes with one thread. Other wheels take std's, for two
    /// reasons. tokio's clock is that of the runtime which the thread is within, not the wheel's. And it panics in a thread
    /// that is about to end and drops a timer with its locals.
    pausable: bool,
}

impl Clock {
    /// A clock whose origin is a year ago, so that deadlines from before the wheel was made keep their distances. The origin
    /// is now if the platform's clock does not reach back so far.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { origin: Origin::new(now.checked_sub(YEAR).unwrap_or(now)), pausable: true }
    }

    /// This clock: tokio's if the wheel's runtime can pause its clock, std's otherwise.
    pub(crate) fn that_pauses(self, pausable: bool) -> Self {
        Self { pausable, ..self }
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        // It stands still under the model checker, because a model has to run the same each time.
        if cfg!(all(test, loom)) {
            return Nanos::from_duration(YEAR);
        }
        // The clock never reaches `MAX`, which stands for deadlines beyond reach.
        self.nanos(self.now_as_instant()).min(Nanos(Nanos::MAX.0 - 1))
    }

    /// The time as an `Instant`.
    #[inline]
    pub(crate) fn now_as_instant(&self) -> Instant {
        if self.pausable { Instant::now() } else { Instant::from_std(std::time::Instant::now()) }
    }

    /// Whether the clock is paused: it shows the same time twice, while std's clock has moved in between.
    pub(crate) fn is_paused(&self) -> bool {
        let (before, std_before) = (self.now(), std::time::Instant::now());
        while std::time::Instant::now() == std_before {
            std::hint::spin_loop();
        }
        self.now() == before
    }

    /// An instant as a point in time: the origin if it is earlier, `MAX` if it is beyond reach.
    #[inline]
    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        self.origin.nanos(instant)
    }

    /// The instant at a point in time. If an [`Instant`] cannot hold it, 30 years from now, as in tokio.
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        self.origin.instant().checked_add(at.to_duration()).unwrap_or_else(|| Instant::now() + LONGEST)
    }
}
