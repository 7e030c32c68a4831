//! The next time on the wall at which an expression holds.

use super::Cron;
use super::days::DayMask;
use crate::wall::{LAST_YEAR, Month, SECONDS_OF_A_DAY, Wall, month_and_day};

/// The Gregorian calendar repeats after 400 years, weekdays included. What is in none of their months, and not in the
/// rest of the month in which the search begins, is never.
const MONTHS_OF_A_CYCLE: u32 = 400 * 12 + 1;

impl Cron {
    /// The first time that matches after this one.
    #[inline]
    pub(crate) fn next_on_the_wall(&self, last: Wall) -> Option<Wall> {
        let (day, second) = Wall(last.0 + 1).day_and_second();
        let (month, day_of_month) = month_and_day(day);
        let mut days = self.days_of(month);
        if days >> day_of_month & 1 != 0
            && let Some(second) = self.next_second_of_day(second)
        {
            return Some(Wall(day * SECONDS_OF_A_DAY + second));
        }
        // The days after this one. Bit 32 of none is wanted, should this be the 31st.
        days &= DayMask::MAX.checked_shl(day_of_month + 1).unwrap_or(0);
        self.first_day(month, days).map(|day| Wall(day * SECONDS_OF_A_DAY + self.first_second_of_day()))
    }

    /// The first of these days, or the first day of a later month.
    fn first_day(&self, mut month: Month, mut days: DayMask) -> Option<i64> {
        let mut steps = 0;
        while days == 0 {
            month = month.next();
            steps += 1;
            if steps > MONTHS_OF_A_CYCLE || month.year > LAST_YEAR {
                return None;
            }
            days = self.days_of(month);
        }
        Some(month.first_day() + i64::from(days.trailing_zeros()) - 1)
    }

    #[inline]
    fn days_of(&self, month: Month) -> DayMask {
        if self.months >> month.month & 1 == 0 { 0 } else { self.days.of(month) }
    }

    /// The first match in a day from this second on.
    #[inline]
    fn next_second_of_day(&self, second: i64) -> Option<i64> {
        // Less than 86,400.
        let second = u32::try_from(second).ok()?;
        let (mut hour, mut minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        if self.hours >> hour & 1 != 0 {
            if self.minutes >> minute & 1 != 0
                && let Some(second) = first_bit(self.seconds, second)
            {
                return Some(second_of_day(hour, minute, second));
            }
            minute += 1;
            if let Some(minute) = first_bit(self.minutes, minute) {
                return Some(second_of_day(hour, minute, self.seconds.trailing_zeros()));
            }
        }
        hour += 1;
        let hour = first_bit(self.hours.into(), hour)?;
        Some(second_of_day(hour, self.minutes.trailing_zeros(), self.seconds.trailing_zeros()))
    }

    fn first_second_of_day(&self) -> i64 {
        second_of_day(
            self.hours.trailing_zeros(),
            self.minutes.trailing_zeros(),
            self.seconds.trailing_zeros(),
        )
    }
}

fn second_of_day(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from((hour * 60 + minute) * 60 + second)
}

/// The first bit that is set from bit `from`, which is at most 60, on.
#[inline]
fn first_bit(mask: u64, from: u32) -> Option<u32> {
    let rest = mask >> from << from;
    (rest != 0).then(|| rest.trailing_zeros())
}
