//! The policy for runs whose time has passed.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;

/// The policy for missed runs. A run is missed if it can begin only a second or more after its instant: the program was
/// not there, the machine was suspended, the clock was set forward, or the run before took so long.
///
/// | | runs after an outage |
/// |---|---|
/// | [`Missed::once`], the default | one, however many were missed: the oldest |
/// | [`Missed::each`] | the oldest ones, in their order, up to a number; the rest is left out |
/// | [`Missed::none`] | none |
/// | [`none_older_than`](Self::none_older_than) | as above, but only runs up to that age |
///
/// There is always a bound: a rule by the minute that comes back after a year does not run half a million times.
///
/// Jobs on a wheel and series of `timingwheel-durable` have the same policy, also where the wheel itself begins a run late.
/// The text of a policy, which a store keeps, is
/// `each 1`, or `each 3 of 86400000 ms`.
///
/// # Examples
///
/// ```
/// use jiff::SignedDuration;
/// use timingwheel_calendar::Missed;
///
/// let missed = Missed::each(3).none_older_than(SignedDuration::from_hours(24));
/// assert_eq!(missed.to_string(), "each 3 of 86400000 ms");
/// assert_eq!("each 3 of 86400000 ms".parse(), Ok(missed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Missed {
    up_to: u32,
    /// In milliseconds.
    oldest: Option<i64>,
}

impl Missed {
    /// One run for all missed ones.
    #[must_use]
    pub const fn once() -> Self {
        Self::each(1)
    }

    /// No run for missed ones.
    #[must_use]
    pub const fn none() -> Self {
        Self::each(0)
    }

    /// Each of them, the oldest first, up to this number at a time.
    #[must_use]
    pub const fn each(up_to: u32) -> Self {
        Self { up_to, oldest: None }
    }

    /// No run whose instant is longer ago than this. The age is rounded down to milliseconds, and a negative age is zero.
    #[must_use]
    pub fn none_older_than(mut self, age: SignedDuration) -> Self {
        self.oldest = Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX).max(0));
        self
    }

    /// How many missed runs run at a time, at the most.
    #[must_use]
    pub const fn up_to(self) -> u32 {
        self.up_to
    }

    /// How long ago the instant of a missed run may be; `None` if that has no bound.
    #[must_use]
    pub fn oldest(self) -> Option<SignedDuration> {
        self.oldest.map(SignedDuration::from_millis)
    }
}

impl Default for Missed {
    fn default() -> Self {
        Self::once()
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "each {}", self.up_to)?;
        if let Some(oldest) = self.oldest {
            write!(f, " of {oldest} ms")?;
        }
        Ok(())
    }
}

/// A text that is not a policy.
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
            let oldest = oldest.strip_suffix(" ms")?.parse().ok().filter(|oldest| *oldest >= 0)?;
            Some(Self { up_to: up_to.parse().ok()?, oldest: Some(oldest) })
        };
        parse().ok_or_else(|| MissedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_back_as_it_was_written() {
        let day = SignedDuration::from_hours(24);
        for missed in [Missed::once(), Missed::none(), Missed::each(7).none_older_than(day)] {
            assert_eq!(missed.to_string().parse(), Ok(missed));
        }
        for text in ["", "each", "each x", "each 1 of 5", "each 1 of -5 ms"] {
            assert!(text.parse::<Missed>().unwrap_err().to_string().ends_with(&format!("got {text:?}")));
        }
    }
}
