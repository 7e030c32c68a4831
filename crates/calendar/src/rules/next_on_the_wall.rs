//! The next time on the wall of a calendar rule.

use super::{Calendar, Every, Filter};
use crate::wall::{
    LAST_YEAR, Month, SECONDS_OF_A_DAY, Wall, date_of_day, days_since_1970, month_and_day, weekday_of_day,
};

impl Calendar {
    /// The first time after this one. Each period is looked at once, and none after the year 9999: at most 7.3 million
    /// days, or 240,000 months.
    pub(super) fn next_on_the_wall(&self, last: Wall) -> Option<Wall> {
        let (day, second) = Wall(last.0 + 1).day_and_second();
        let found = self.first_day(day)?;
        if found == day
            && let Some(second) = self.seconds_of_day.iter().find(|&&at| at >= second)
        {
            return Some(Wall(day * SECONDS_OF_A_DAY + second));
        }
        let found = if found == day { self.first_day(day + 1)? } else { found };
        Some(Wall(found * SECONDS_OF_A_DAY + self.seconds_of_day.first()?))
    }

    /// The first day from this one on.
    fn first_day(&self, from: i64) -> Option<i64> {
        let anchor = days_since_1970(self.anchor);
        let from = from.max(anchor);
        let last = Month { year: LAST_YEAR, month: 12 }.first_day() + 30;
        let last = self.until.map_or(last, days_since_1970);
        let found = match &self.every {
            Every::Days(n, filter) => self.by_days((*n).into(), *filter, from, anchor, last),
            Every::Weeks(n, weekdays) => by_weeks((*n).into(), *weekdays, from, anchor),
            Every::Months(n, _) => self.by_months((*n).into(), from, last),
        };
        found.filter(|&day| day <= last)
    }

    fn by_days(&self, n: i64, filter: Filter, from: i64, anchor: i64, last: i64) -> Option<i64> {
        let mut day = from + (anchor - from).rem_euclid(n);
        // After seven in a row the weekdays repeat.
        let (mut tries, mut has_weekday) = (0, false);
        while day <= last {
            let is_weekday = filter.weekdays >> weekday_of_day(day) & 1 != 0;
            if is_weekday && (!filter.business_days || self.business_days.contains(date_of_day(day)?)) {
                return Some(day);
            }
            has_weekday |= is_weekday;
            tries += 1;
            if tries == 7 && !has_weekday {
                return None;
            }
            day += n;
        }
        None
    }

    fn by_months(&self, n: i64, from: i64, last: i64) -> Option<i64> {
        let first = month_and_day(days_since_1970(self.anchor)).0.number();
        let (month, day) = month_and_day(from);
        let mut number = month.number();
        number += (first - number).rem_euclid(n);
        let mut from_day = if number == month.number() { day } else { 1 };
        loop {
            let month = Month::from_number(number);
            if month.first_day() > last {
                return None;
            }
            if let Some(day) = self.day_of_month(month, from_day) {
                return Some(month.first_day() + i64::from(day) - 1);
            }
            from_day = 1;
            number += n;
        }
    }

    /// The first of the days that are chosen in a month, from this one on.
    fn day_of_month(&self, month: Month, from: u32) -> Option<u32> {
        let Every::Months(_, days) = &self.every else { return None };
        let days = days.iter().filter_map(|day| day.in_month(month, self.anchor, &self.business_days));
        days.filter(|&day| day >= from).min()
    }
}

fn by_weeks(n: i64, weekdays: u8, from: i64, anchor: i64) -> Option<i64> {
    // Monday is 0.
    let of_week = |day: i64| i64::from((weekday_of_day(day) + 6) % 7);
    let first_monday = anchor - of_week(anchor);
    let monday = from - of_week(from);
    let is_nth = (monday - first_monday) / 7 % n == 0;
    let has = |day: &i64| weekdays >> weekday_of_day(*day) & 1 != 0;
    let this_week = if is_nth { (from..monday + 7).find(has) } else { None };
    this_week.or_else(|| {
        let weeks = n - (monday - first_monday) / 7 % n;
        let next = monday + 7 * weeks;
        (next..next + 7).find(has)
    })
}
