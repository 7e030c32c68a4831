//! Rules without a wall clock: a single instant, and every n seconds, minutes or hours of real time.

use std::fmt;

use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

use crate::rule::Rule;
use crate::rules::Calendar;
use crate::zone::InZone;

/// A single instant.
///
/// # Thirty days, or 720 hours
///
/// Clocks change within a month, so these are not the same, and the caller says which is meant:
///
/// ```
/// use jiff::Zoned;
/// use timingwheel_calendar::{Once, Rule};
///
/// let ordered: Zoned = "2026-03-15T12:00:00[Europe/Berlin]".parse()?;
/// let by_days = Once::after_calendar_days(&ordered, 30);
/// let by_hours = Once::after_hours(ordered.timestamp(), 720);
/// assert_eq!(by_days.after(ordered.timestamp()), Some("2026-04-14T12:00:00+02:00".parse()?));
/// assert_eq!(by_hours.after(ordered.timestamp()), Some("2026-04-14T13:00:00+02:00".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Once(Timestamp);

impl Once {
    /// At this instant.
    #[must_use]
    pub const fn at(instant: Timestamp) -> Self {
        Self(instant)
    }

    /// At `hours` hours of real time after `start`, but not after the end of the year 9999.
    #[must_use]
    pub fn after_hours(start: Timestamp, hours: u32) -> Self {
        Self(start.saturating_add(SignedDuration::from_hours(hours.into())).unwrap_or(Timestamp::MAX))
    }

    /// At the same time of the day `days` days later, by the clocks of the zone of `start`, but not after the end of
    /// the year 9999. A fraction of a second counts as a whole one.
    ///
    /// This is a rule by the wall clock, and not a fixed instant. If the clock changes of the zone are redefined
    /// meanwhile, the rule gives another instant.
    #[must_use]
    pub fn after_calendar_days(start: &Zoned, days: u32) -> InZone<Calendar> {
        let zone = start.time_zone();
        // Instants end before years do.
        let end = zone.to_datetime(Timestamp::MAX);
        let end = end.saturating_sub(i64::from(end.subsec_nanosecond()).nanoseconds());
        let then = start.datetime().saturating_add(i64::from(days.min(MOST_DAYS)).days()).min(end);
        Calendar::once(then).in_zone(zone.clone())
    }
}

/// The whole range of jiff's instants.
const MOST_DAYS: u32 = 7_304_484;

impl Rule for Once {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        (self.0 > last).then_some(self.0)
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "once at {}", self.0)
    }
}

/// Every n seconds, minutes or hours from an instant: of real time, whatever clocks show.
///
/// For every n days, weeks, months or years, by the clocks of a zone, there is [`Calendar`]. A day of
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
        assert!(n > 0, "the number of seconds must be at least 1, got 0");
        Self { seconds: n, anchor }
    }

    /// Every `n` minutes.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn minutes(n: u32, anchor: Timestamp) -> Self {
        assert!(n > 0, "the number of minutes must be at least 1, got 0");
        Self::seconds(u64::from(n) * 60, anchor)
    }

    /// Every `n` hours.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn hours(n: u32, anchor: Timestamp) -> Self {
        assert!(n > 0, "the number of hours must be at least 1, got 0");
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
