//! When something is to happen, by the calendar: from an instant to the next.

use std::fmt;

use jiff::civil::{Date, DateTime, Time, Weekday, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// When they begin, and when they are over.
pub(crate) const OFFICE_HOURS: (Time, Time) = (time(9, 0, 0, 0), time(17, 0, 0, 0));

#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// Every day at this time.
    Daily(Time),
    /// At this time on the last day of a month that is no Saturday and no Sunday.
    LastWorkingDay(Time),
    /// Every so many minutes of the office hours, from Monday to Friday.
    OfficeHours(i64),
}

/// A time that a rule asks for, and when that is.
#[derive(Clone, Copy)]
pub(crate) struct Occasion {
    /// What the clock on the wall should show.
    pub(crate) asked_for: DateTime,
    pub(crate) at: Timestamp,
}

impl Rule {
    /// The first occasion after an instant, or `None` after the last day of the calendar.
    ///
    /// Where the clock on the wall is moved forward, a time that it leaves out is by so much later. Where it is moved
    /// back, a time that comes twice is the first of the two.
    pub(crate) fn after(self, instant: Timestamp, zone: &TimeZone) -> Option<Occasion> {
        // From the day before, whose last times may have been moved past midnight.
        let from = zone.to_datetime(instant).date().yesterday().ok()?;
        from.series(1.day()).filter(|&date| is_there(date, zone)).find_map(|date| {
            let occasions = self.times_on(date, zone).into_iter().filter_map(|time| {
                let asked_for = date.to_datetime(time);
                let at = zone.to_ambiguous_timestamp(asked_for).compatible().ok()?;
                Some(Occasion { asked_for, at })
            });
            occasions.filter(|occasion| occasion.at > instant).min_by_key(|occasion| occasion.at)
        })
    }

    fn times_on(self, date: Date, zone: &TimeZone) -> Vec<Time> {
        match self {
            Self::Daily(time) => vec![time],
            Self::LastWorkingDay(time) if is_last_working_day_of_its_month(date, zone) => vec![time],
            Self::OfficeHours(every) if is_working_day(date) => {
                let (begin, end) = OFFICE_HOURS;
                begin.series(every.minutes()).take_while(|&time| time < end).collect()
            }
            Self::LastWorkingDay(_) | Self::OfficeHours(_) => Vec::new(),
        }
    }
}

pub(crate) fn is_working_day(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Zones have left days out, to change sides of the date line.
fn is_there(date: Date, zone: &TimeZone) -> bool {
    date.to_zoned(zone.clone()).is_ok_and(|begins| begins.date() == date)
}

fn is_last_working_day_of_its_month(date: Date, zone: &TimeZone) -> bool {
    let mut left = date.series(1.day()).skip(1).take_while(|later| later.month() == date.month());
    is_working_day(date) && !left.any(|later| is_working_day(later) && is_there(later, zone))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daily(time) => write!(f, "every day at {}", time.strftime("%H:%M")),
            Self::LastWorkingDay(time) => {
                write!(f, "last working day of a month at {}", time.strftime("%H:%M"))
            }
            Self::OfficeHours(every) => write!(f, "every {every} minutes in office hours"),
        }
    }
}
