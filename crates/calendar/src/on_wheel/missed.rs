//! What becomes of runs whose time has passed.

use jiff::SignedDuration;

/// What becomes of missed runs: those whose instant was a second ago or longer when they could have begun, because the
/// program was not there, the machine was suspended, the clock was set forward, or the run before took so long.
///
/// | | runs after an outage |
/// |---|---|
/// | [`Missed::once`], unless told otherwise | one, however many were missed: that of the first |
/// | [`Missed::each`] | each, the oldest first, up to a number; the rest is left out |
/// | [`Missed::none`] | none |
/// | [`none_older_than`](Self::none_older_than) | as above, but only runs up to that age |
///
/// There is always a bound: a rule by the minute that comes back after a year does not run half a million times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Missed {
    pub(super) up_to: u32,
    pub(super) oldest: Option<SignedDuration>,
}

impl Missed {
    /// One run for all that were missed.
    #[must_use]
    pub const fn once() -> Self {
        Self::each(1)
    }

    /// No run for what was missed.
    #[must_use]
    pub const fn none() -> Self {
        Self::each(0)
    }

    /// Each of them, the oldest first, up to this number at a time.
    #[must_use]
    pub const fn each(up_to: u32) -> Self {
        Self { up_to, oldest: None }
    }

    /// None whose instant is longer ago than this.
    #[must_use]
    pub const fn none_older_than(mut self, age: SignedDuration) -> Self {
        self.oldest = Some(age);
        self
    }
}

impl Default for Missed {
    fn default() -> Self {
        Self::once()
    }
}
