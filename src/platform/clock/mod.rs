//! The only reader of the clock.

mod origin;

use std::time::Duration;

use tokio::time::Instant;

use crate::wheel::tick::Nanos;
use origin::Origin;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest that a sleep or a period of `timingwheel::time`, and any time to an interval's reset, is taken for, as
/// in tokio: 30 years.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * YEAR.as_secs());

/// std's clock, which nobody can pause: for how long something takes.
pub(crate) fn stopwatch() -> std::time::Instant {
    std::time::Instant::now()
}

/// A wheel's clock, counted from an origin of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Origin,
    /// Whether it is tokio's, which tests can pause on runtimes with one thread. tokio's goes by the runtime that the
    /// thread is within, so a wheel of another runtime would go by a stranger's clock; and it panics where a thread that
    /// is about to end drops a timer with its locals.
    pausable: bool,
}

impl Clock {
    /// A clock whose origin is a year ago, or now where the platform's clock does not reach back so far: deadlines
    /// from before the wheel was made keep their distances.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { origin: Origin::new(now.checked_sub(YEAR).unwrap_or(now)), pausable: true }
    }

    /// This clock, for a wheel on a runtime whose clock can be paused or not: then it is std's.
    pub(crate) fn that_pauses(self, pausable: bool) -> Self {
        Self { pausable, ..self }
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        // Under the model checker it stands still, because a model has to run the same each time.
        if cfg!(all(test, loom)) {
            return Nanos::from_duration(YEAR);
        }
        // `MAX` is left to deadlines beyond reach, so that the clock never reaches them.
        self.nanos(self.now_as_instant()).min(Nanos(Nanos::MAX.0 - 1))
    }

    /// The time as users have it.
    #[inline]
    pub(crate) fn now_as_instant(&self) -> Instant {
        if self.pausable { Instant::now() } else { Instant::from_std(std::time::Instant::now()) }
    }

    /// Whether the clock is paused: two looks at it show the same time, and std's clock has moved in between.
    pub(crate) fn is_paused(&self) -> bool {
        let (before, std_before) = (self.now(), std::time::Instant::now());
        while std::time::Instant::now() == std_before {
            std::hint::spin_loop();
        }
        self.now() == before
    }

    /// Where an instant lies: what is before the origin is at the origin, what is beyond reach at `MAX`.
    #[inline]
    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        self.origin.nanos(instant)
    }

    /// The instant at a point in time. One that an [`Instant`] cannot hold is 30 years from now, as tokio has it.
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        self.origin.instant().checked_add(at.to_duration()).unwrap_or_else(|| Instant::now() + LONGEST)
    }
}
