//! The only reader of the clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::tick::Nanos;

/// tokio's clock, which tests can pause, counted from the origin of a wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is a year ago, or now where the platform's clock does not reach back so far: deadlines
    /// from before the wheel was made keep their distances.
    pub(crate) fn start() -> Self {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let now = Instant::now();
        Self { origin: now.checked_sub(YEAR).unwrap_or(now) }
    }

    pub(crate) fn now(&self) -> Nanos {
        // `MAX` is left to deadlines beyond reach, so that the clock never reaches them.
        self.nanos(Instant::now()).min(Nanos(Nanos::MAX.0 - 1))
    }

    /// Where an instant lies: what is before the origin is at the origin, what is beyond reach at `MAX`.
    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        Nanos::from_duration(instant.saturating_duration_since(self.origin))
    }

    /// The instant at a point in time. One that an [`Instant`] cannot hold is 30 years from now, as tokio has it.
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
        self.origin.checked_add(at.to_duration()).unwrap_or_else(|| Instant::now() + FAR)
    }
}
