//! The time on a wall clock as one number, and the arithmetic of the Gregorian calendar on it.

use jiff::civil::{Date, DateTime};

pub(crate) const SECONDS_OF_A_DAY: i64 = 86_400;

/// The last year that jiff knows. Rules look no further.
pub(crate) const LAST_YEAR: i64 = 9999;

/// The time on a wall clock: the seconds since it showed the beginning of 1970. No zone, no clock changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wall(pub(crate) i64);

impl Wall {
    /// The number of the day, counted from 1970, and the second of it.
    pub(crate) const fn day_and_second(self) -> (i64, i64) {
        (self.0.div_euclid(SECONDS_OF_A_DAY), self.0.rem_euclid(SECONDS_OF_A_DAY))
    }

    /// `None` outside of jiff's years, -9999 to 9999.
    pub(crate) fn to_datetime(self) -> Option<DateTime> {
        let (day, second) = self.day_and_second();
        let date = date_of_day(day)?;
        // Less than 24, 60 and 60.
        let part = |number: i64| i8::try_from(number).ok();
        let (hour, minute, second) = (part(second / 3_600)?, part(second / 60 % 60)?, part(second % 60)?);
        Some(date.at(hour, minute, second, 0))
    }
}

/// A month of a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Month {
    pub(crate) year: i64,
    /// From 1 to 12.
    pub(crate) month: u32,
}

impl Month {
    pub(crate) const fn next(self) -> Self {
        if self.month == 12 {
            Self { year: self.year + 1, month: 1 }
        } else {
            Self { year: self.year, month: self.month + 1 }
        }
    }

    /// The months since the beginning of the year 0.
    pub(crate) fn number(self) -> i64 {
        self.year * 12 + i64::from(self.month) - 1
    }

    pub(crate) fn from_number(number: i64) -> Self {
        // From 0 to 11.
        let month = u32::try_from(number.rem_euclid(12)).unwrap_or(0) + 1;
        Self { year: number.div_euclid(12), month }
    }

    /// From 28 to 31.
    pub(crate) const fn days(self) -> u32 {
        match self.month {
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The number of its first day, counted from 1970: H. Hinnant's `days_from_civil`, whose years begin in March, so
    /// that the leap day is the last.
    pub(crate) fn first_day(self) -> i64 {
        let month = i64::from(self.month);
        let year = if month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year - era * 400;
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_OF_400_YEARS + day_of_era - DAYS_TO_1970
    }
}

/// The calendar repeats after them. They are whole weeks too.
const DAYS_OF_400_YEARS: i64 = 146_097;
/// From the first of March of the year 0.
const DAYS_TO_1970: i64 = 719_468;

/// The month, and the day of it, of a number counted from 1970: H. Hinnant's `civil_from_days`.
pub(crate) fn month_and_day(day: i64) -> (Month, u32) {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = day - era * DAYS_OF_400_YEARS;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    // From 1 to 12, and from 1 to 31.
    let small = |number: i64| u32::try_from(number).unwrap_or(1);
    (Month { year, month: small(month) }, small(day_of_month))
}

/// 0 is Sunday.
pub(crate) fn weekday_of_day(day: i64) -> u32 {
    // 1970 began on a Thursday. From 0 to 6.
    u32::try_from((day + 4).rem_euclid(7)).unwrap_or(0)
}

pub(crate) fn days_since_1970(date: Date) -> i64 {
    // From 1 to 12.
    let month = u32::from(date.month().unsigned_abs());
    Month { year: date.year().into(), month }.first_day() + i64::from(date.day()) - 1
}

/// `None` outside of jiff's years.
pub(crate) fn date_of_day(day: i64) -> Option<Date> {
    let (Month { year, month }, day) = month_and_day(day);
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_is_that_of_jiff_on_every_day() {
        let mut date = Date::MIN;
        for day in days_since_1970(Date::MIN)..=days_since_1970(Date::MAX) {
            let (Month { year, month }, day_of_month) = month_and_day(day);
            assert_eq!((year, i64::from(month)), (date.year().into(), date.month().into()), "{date}");
            assert_eq!(i64::from(day_of_month), date.day().into(), "{date}");
            assert_eq!(days_since_1970(date), day, "{date}");
            assert_eq!(i64::from(Month { year, month }.days()), date.days_in_month().into(), "{date}");
            assert_eq!(
                i64::from(weekday_of_day(day)),
                date.weekday().to_sunday_zero_offset().into(),
                "{date}"
            );
            date = date.tomorrow().unwrap_or(Date::MAX);
        }
    }
}
