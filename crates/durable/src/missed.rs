//! What becomes of runs of a series whose time has passed.

use std::fmt;
use std::str::FromStr;

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
    pub(crate) up_to: u32,
    /// In milliseconds.
    pub(crate) oldest: Option<u64>,
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

    /// None whose instant is longer ago than this. Milliseconds count, and what is negative is zero.
    #[must_use]
    pub fn none_older_than(mut self, age: SignedDuration) -> Self {
        self.oldest =
            Some(u64::try_from(age.as_millis()).unwrap_or(if age.is_negative() { 0 } else { u64::MAX }));
        self
    }
}

impl Default for Missed {
    fn default() -> Self {
        Self::once()
    }
}

/// As a store has it: `each 1`, `each 3 of 86400000 ms`.
impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "each {}", self.up_to)?;
        if let Some(oldest) = self.oldest {
            write!(f, " of {oldest} ms")?;
        }
        Ok(())
    }
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedError(String);

impl fmt::Display for MissedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a policy for missed runs must be as `each 3` or `each 3 of 60000 ms`, got {:?}", self.0)
    }
}

impl std::error::Error for MissedError {}

impl FromStr for Missed {
    type Err = MissedError;

    fn from_str(text: &str) -> Result<Self, MissedError> {
        let parse = || {
            let each = text.strip_prefix("each ")?;
            let Some((up_to, oldest)) = each.split_once(" of ") else {
                return Some(Self::each(each.parse().ok()?));
            };
            let oldest = oldest.strip_suffix(" ms")?.parse().ok()?;
            Some(Self { up_to: up_to.parse().ok()?, oldest: Some(oldest) })
        };
        parse().ok_or_else(|| MissedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Series;

    #[test]
    fn a_policy_and_a_series_are_read_back_as_they_were_written() {
        let day = SignedDuration::from_hours(24);
        for missed in [Missed::once(), Missed::none(), Missed::each(7).none_older_than(day)] {
            assert_eq!(missed.to_string().parse(), Ok(missed));
            let mut series =
                Series::new("any (cron 0 9 * * * in UTC) (once at 2026-01-01T00:00:00Z)".into(), missed);
            assert_eq!(series.to_string().parse().as_ref(), Ok(&series));
            series.catching_up = Some((-5, 3));
            assert_eq!(series.to_string().parse().as_ref(), Ok(&series));
        }
        assert!("each".parse::<Missed>().is_err());
        assert!("each 1".parse::<Series>().is_err());
    }
}
