//! What the wall clock and the one that only counts showed at a moment.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A look at both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) shown: Timestamp,
    pub(super) at: Instant,
}

impl Reading {
    /// By how much the wall clock was set forward from the one reading to the other; less than nothing if it was set
    /// back.
    pub(super) fn set_since(&self, before: &Self) -> SignedDuration {
        let passed = self.at.saturating_duration_since(before.at);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        self.shown.duration_since(before.shown).saturating_sub(passed)
    }

    /// When the clock will show this, if nobody sets it. What is past is now, and what no [`Instant`] can hold is never.
    pub(super) fn instant(&self, shown: Timestamp) -> Instant {
        /// What a wheel takes for never, and an [`Instant`] can hold.
        const NEVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
        let wait = Duration::try_from(shown.duration_since(self.shown)).unwrap_or_default();
        self.at.checked_add(wait.min(NEVER)).unwrap_or(self.at)
    }
}
