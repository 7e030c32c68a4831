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
    /// A clock whose origin is now.
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Nanos {
        // `MAX` is left to deadlines beyond reach, so that the clock never reaches them.
        self.nanos(Instant::now()).min(Nanos(Nanos::MAX.0 - 1))
    }

    /// Where an instant lies: what is before the origin is at the origin, what is beyond reach at `MAX`.
    pub(crate) fn nanos(&self, instant: Instant) -> Nanos {
        Nanos::from_duration(instant.saturating_duration_since(self.origin))
    }

    /// The instant at a point in time, or `None` for one that an [`Instant`] cannot hold.
    pub(crate) fn instant(&self, at: Nanos) -> Option<Instant> {
        self.origin.checked_add(at.to_duration())
    }
}

/// The instant `delay` from now. Where an [`Instant`] cannot hold that, 30 years from now, as tokio has it.
pub(crate) fn deadline_after(delay: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(delay).unwrap_or_else(|| now + FAR)
}
