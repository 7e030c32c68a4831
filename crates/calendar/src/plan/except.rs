//! Rules that leave something out.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::Plan;
use crate::rule::Rule;

/// A rule but for the days of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExceptDays {
    pub(super) rule: Plan,
    pub(super) days_of: Plan,
    pub(super) zone: TimeZone,
}

/// The instant before this one.
pub(super) fn before(instant: Timestamp) -> Timestamp {
    instant.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

impl ExceptDays {
    /// Each step leaves out a day. The other rule is asked again only when the day is past what it said last, so it
    /// too goes through the calendar once.
    pub(super) fn after(&self, mut last: Timestamp) -> Option<Timestamp> {
        if self.rule == self.days_of {
            return None;
        }
        let mut left_out = Some(Timestamp::MIN);
        loop {
            let found = self.rule.after(last)?;
            let day = self.zone.to_datetime(found).date();
            let (begin, end) =
                (self.begin(day), day.tomorrow().map_or(Timestamp::MAX, |next| self.begin(next)));
            if left_out.is_some_and(|left_out| left_out < begin) {
                left_out = self.days_of.after(before(begin));
            }
            if left_out.is_none_or(|left_out| left_out >= end) {
                return Some(found);
            }
            // Never back, whatever clocks did at midnight.
            last = before(end).max(found);
        }
    }

    /// The first instant of a day.
    fn begin(&self, day: Date) -> Timestamp {
        let midnight = self.zone.to_ambiguous_timestamp(day.at(0, 0, 0, 0)).compatible();
        midnight.unwrap_or(if day.year() < 0 { Timestamp::MIN } else { Timestamp::MAX })
    }
}

/// A rule but for some instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExceptAt {
    pub(super) rule: Plan,
    pub(super) instants: BTreeSet<Timestamp>,
}

impl ExceptAt {
    /// Each step leaves out one of the instants.
    pub(super) fn after(&self, last: Timestamp) -> Option<Timestamp> {
        let mut instants = self.rule.upcoming(last);
        instants.find(|found| !self.instants.contains(found))
    }
}
