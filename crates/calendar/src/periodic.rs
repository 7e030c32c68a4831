//! Every n seconds, minutes and hours of real time.

use std::fmt;

use jiff::Timestamp;

use crate::rule::Rule;

/// Every n seconds, minutes or hours from an instant: of real time, whatever clocks show.
///
/// For every n days, weeks, months or years, by the clocks of a zone, there is [`Calendar`](crate::Calendar). A day of
/// a zone sometimes has 23 or 25 hours, so 24 hours are not the same as a day.
///
/// # Examples
///
/// ```
/// use jiff::Timestamp;
/// use timingwheel_calendar::{Periodic, Rule};
///
/// let anchor: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// let rule = Periodic::minutes(90, anchor);
/// assert_eq!(rule.after(anchor), Some("2026-01-01T01:30:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Periodic {
    seconds: u64,
    anchor: Timestamp,
}

impl Periodic {
    /// Every `n` seconds; the anchor is the first instant.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn seconds(n: u64, anchor: Timestamp) -> Self {
        assert!(n > 0, "every 0 seconds: it takes at least 1");
        Self { seconds: n, anchor }
    }

    /// Every `n` minutes.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn minutes(n: u32, anchor: Timestamp) -> Self {
        assert!(n > 0, "every 0 minutes: it takes at least 1");
        Self::seconds(u64::from(n) * 60, anchor)
    }

    /// Every `n` hours.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn hours(n: u32, anchor: Timestamp) -> Self {
        assert!(n > 0, "every 0 hours: it takes at least 1");
        Self::seconds(u64::from(n) * 3_600, anchor)
    }
}

impl Rule for Periodic {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        let (anchor, last) = (self.anchor.as_nanosecond(), last.as_nanosecond());
        if last < anchor {
            return Some(self.anchor);
        }
        // At most 2^64 seconds, which are less than 2^94 nanoseconds.
        let period = i128::from(self.seconds) * 1_000_000_000;
        let periods = (last - anchor) / period + 1;
        Timestamp::from_nanosecond(anchor + periods * period).ok()
    }

    fn is_interval(&self) -> bool {
        true
    }
}

impl fmt::Display for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, anchor } = self;
        match (seconds % 3_600, seconds % 60) {
            (0, _) => write!(f, "every {} hours from {anchor}", seconds / 3_600),
            (_, 0) => write!(f, "every {} minutes from {anchor}", seconds / 60),
            _ => write!(f, "every {seconds} seconds from {anchor}"),
        }
    }
}
