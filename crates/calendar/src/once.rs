//! A single instant, and the two ways to say when that is.

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

/// All of jiff's years.
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
