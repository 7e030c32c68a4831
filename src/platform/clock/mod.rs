//! A wheel's clock. Nothing else reads the time for deadlines. What the engine does while the clock is paused is told in
//! `src/engine/DESIGN.md`, under "Where the clock may be paused".

mod origin;

use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::Nanos;
use origin::Origin;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// 30 years. Longer sleeps and periods in `timingwheel::time`, and longer times to an interval's reset, count as this
/// long, as they do in tokio.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * YEAR.as_secs());

/// Reads std's clock, which cannot be paused. It measures how long something takes.
pub(crate) fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}

/// A wheel's clock. It counts from an origin of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Origin,
    /// Whether this is tokio's clock, which tests can pause on runtimes with one thread. Otherwise it is std's, because
    /// tokio's has two drawbacks. It is the clock of the runtime that the thread is within, which may be another one
    /// than the wheel's. And it panics in a thread that is about to end and drops a timer with its locals.
    pausable: bool,
}

impl Clock {
    /// A clock whose origin is a year ago, so that deadlines from before the wheel was made are told apart. Where the
    /// platform's clock does not reach back so far, the origin is now.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { origin: Origin::new(now.checked_sub(YEAR).unwrap_or(now)), pausable: true }
    }

    /// This clock for a wheel on a given runtime: tokio's clock if that of the runtime is `pausable`, otherwise std's.
    pub(crate) fn that_pauses(self, pausable: bool) -> Self {
        Self { pausable, ..self }
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        // In a model the clock stands still, because a model has to run the same each time.
        if cfg!(all(test, loom)) {
            return Nanos::from_duration(YEAR);
        }
        // `MAX` stands for deadlines beyond reach, so the clock must never come to it.
        self.nanos(self.now_as_instant()).min(Nanos(Nanos::MAX.0 - 1))
    }

    /// The time as an instant, as users have it.
    #[inline]
    pub(crate) fn now_as_instant(&self) -> Instant {
        if self.pausable { Instant::now() } else { Instant::from_std(std::time::Instant::now()) }
    }

    /// Whether the clock is paused: it reads the same twice, although std's clock has moved in between.
    pub(crate) fn is_paused(&self) -> bool {
        let (before, std_before) = (self.now(), std::time::Instant::now());
        while std::time::Instant::now() == std_before {
            std::hint::spin_loop();
        }
        self.now() == before
    }

    /// The time at `instant`: zero if `instant` is before the origin, `MAX` if it is beyond reach.
    #[inline]
    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        self.origin.nanos(instant)
    }

    /// The instant at the time `at`. If an [`Instant`] cannot hold that, it is 30 years from now, as in tokio.
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        self.origin.instant().checked_add(at.to_duration()).unwrap_or_else(|| Instant::now() + LONGEST)
    }
}
