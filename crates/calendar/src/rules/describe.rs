//! What a calendar rule means, in a sentence.

use jiff::civil::Weekday;

use super::text::weekdays_of;
use super::{Calendar, Every, Filter, MonthDay, MonthEnd};
use crate::cron::{clock_times, list, ordinal};

impl Calendar {
    /// What it means, in a few words of English. For people; the words may change.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::civil::{Weekday, date, time};
    /// use timingwheel_calendar::{Calendar, MonthDay};
    ///
    /// let payroll = Calendar::months(1, date(2026, 1, 1), MonthDay::BusinessDay(-1)).at(time(18, 0, 0, 0));
    /// assert_eq!(payroll.describe(), "at 18:00 on the last business day of every month, from 2026-01-01");
    /// let meeting = Calendar::weeks(2, date(2026, 1, 5)).at(time(9, 30, 0, 0));
    /// assert_eq!(meeting.describe(), "at 09:30 on Monday of every 2nd week, from 2026-01-05");
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let times = clock_times(self.seconds_of_day.iter().copied());
        if self.until == Some(self.anchor) && self.every == Every::Days(1, Filter::ALL) {
            return format!("once, at {times} on {}", self.anchor);
        }
        let until = self.until.map(|last| format!(" until {last}")).unwrap_or_default();
        format!("at {times} {}, from {}{until}", self.which_days(), self.anchor)
    }

    fn which_days(&self) -> String {
        match &self.every {
            Every::Days(1, Filter { business_days: true, weekdays: 0x7f }) => "every business day".into(),
            Every::Days(n, filter) => {
                let weekdays = list(&weekdays_of(filter.weekdays).map(name).collect::<Vec<_>>(), "or");
                let days = every(*n, "day");
                match (filter.business_days, filter.has_weekdays()) {
                    (false, false) => days,
                    (false, true) => format!("{days} if it is {weekdays}"),
                    (true, false) => format!("{days} if it is a business day"),
                    (true, true) => format!("{days} if it is a business day and {weekdays}"),
                }
            }
            Every::Weeks(n, mask) => {
                let weekdays = weekdays_of(*mask).map(name);
                format!("on {} of {}", list(&weekdays.collect::<Vec<_>>(), "and"), every(*n, "week"))
            }
            Every::Months(n, days) => {
                let days: Vec<String> = days.iter().map(|day| self.month_day(*day)).collect();
                let months = if n % 12 == 0 {
                    format!("{} of {}", self.anchor.strftime("%B"), every(n / 12, "year"))
                } else {
                    every(*n, "month")
                };
                format!("on {} of {months}", list(&days, "and"))
            }
        }
    }

    fn month_day(&self, day: MonthDay) -> String {
        let from_end = |nth: i8, what: &str| match nth {
            -1 => format!("the last {what}"),
            ..-1 => format!("the {} last {what}", ordinal(nth.unsigned_abs().into())),
            _ => format!("the {} {what}", ordinal(nth.unsigned_abs().into())),
        };
        let number = |day: u32, end| match end {
            _ if day <= 28 => format!("the {}", ordinal(day)),
            MonthEnd::Clamp => format!("the {} or the last day", ordinal(day)),
            MonthEnd::LeaveOut => format!("the {}, where there is one,", ordinal(day)),
        };
        match day {
            // From 1 to 31.
            MonthDay::OfAnchor(end) => number(self.anchor.day().unsigned_abs().into(), end),
            MonthDay::Number(day, end) => number(day.into(), end),
            MonthDay::BeforeLast(0) => "the last day".into(),
            MonthDay::BeforeLast(days) => format!("the {} day before the last", ordinal(days.into())),
            MonthDay::Weekday(weekday, nth) => from_end(nth, &name(weekday)),
            MonthDay::BusinessDay(nth) => from_end(nth, "business day"),
            MonthDay::NearestBusinessDay(day, end) => {
                format!("the business day nearest to {}", number(day.into(), end))
            }
        }
    }
}

fn every(n: u32, unit: &str) -> String {
    if n == 1 { format!("every {unit}") } else { format!("every {} {unit}", ordinal(n)) }
}

fn name(weekday: Weekday) -> String {
    format!("{weekday:?}")
}
