//! The days that an expression names, and the next time on the wall at which it holds.

use super::Cron;
use crate::wall::{LAST_YEAR, Month, SECONDS_OF_A_DAY, Wall, month_and_day, weekday_of_day};

/// A bit for each day of a month, from bit 1.
pub(crate) type DayMask = u32;

const SUNDAY: u32 = 0;
const SATURDAY: u32 = 6;

/// The days that the two fields for days name, and how they go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Days {
    /// Days of the month, by their numbers.
    pub(super) numbers: DayMask,
    /// `L` is bit 0, `L-3` is bit 3.
    pub(super) from_end: u32,
    /// `LW`.
    pub(super) last_weekday: bool,
    /// `15W` is bit 15.
    pub(super) nearest: u32,
    /// Weekdays, of which 0 is Sunday.
    pub(super) weekdays: u8,
    /// Weekdays that are the first, second and so on of their kind.
    pub(super) nth: [u8; 5],
    /// Weekdays that are the last of their kind.
    pub(super) last: u8,
    /// Whether one of the fields begins with `*`, or is `?`: then a day has to be in both. Otherwise it may be in
    /// either, as Vixie's cron has it.
    pub(super) in_both: bool,
}

/// The shape of a month: its length, and the weekday of its first day.
struct Shape {
    days: u32,
    /// The weekday of the first.
    first: u32,
}

impl Shape {
    fn weekday(&self, day: u32) -> u32 {
        (self.first + day - 1) % 7
    }

    fn all(&self) -> DayMask {
        // At most 31 days, and so 32 bits.
        (DayMask::MAX >> (31 - self.days)) & !1
    }

    /// The weekdays of a mask, turned so that bit 0 is the weekday of the first.
    fn turned(&self, weekdays: u8) -> u32 {
        let weekdays = u32::from(weekdays);
        ((weekdays >> self.first) | (weekdays << (7 - self.first))) & 0x7f
    }

    /// The weekday nearest to a day, in the same month.
    fn nearest_weekday(&self, day: u32) -> u32 {
        match self.weekday(day) {
            SATURDAY if day == 1 => 3,
            SATURDAY => day - 1,
            SUNDAY if day == self.days => day - 2,
            SUNDAY => day + 1,
            _ => day,
        }
    }
}

impl Days {
    /// The days of this month. Most months of most rules take a few instructions; only `L`, `W` and `#` are looped over.
    #[inline]
    pub(super) fn of(&self, month: Month) -> DayMask {
        let shape = Shape { days: month.days(), first: weekday_of_day(month.first_day()) };
        let by_number = self.by_number(&shape);
        let by_weekday = self.by_weekday(&shape);
        shape.all() & if self.in_both { by_number & by_weekday } else { by_number | by_weekday }
    }

    fn by_number(&self, shape: &Shape) -> DayMask {
        let mut mask = self.numbers;
        if self.from_end != 0 || self.nearest != 0 || self.last_weekday {
            for before in bits(self.from_end).filter(|&before| before < shape.days) {
                mask |= 1 << (shape.days - before);
            }
            for day in bits(self.nearest).filter(|&day| day <= shape.days) {
                mask |= 1 << shape.nearest_weekday(day);
            }
            if self.last_weekday {
                mask |= 1 << shape.nearest_weekday(shape.days);
            }
        }
        mask
    }

    fn by_weekday(&self, shape: &Shape) -> DayMask {
        /// Bit 0 of each week, if bit 0 is the first of the month.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        // 35 days, of which the last are cut off: no month has them.
        #[allow(clippy::cast_possible_truncation)]
        let mut mask = ((u64::from(shape.turned(self.weekdays)) * WEEKS) << 1) as DayMask;
        for (week, &weekdays) in self.nth.iter().enumerate().filter(|&(_, &weekdays)| weekdays != 0) {
            mask |= shape.turned(weekdays) << (1 + 7 * week);
        }
        if self.last != 0 {
            for day in shape.days - 6..=shape.days {
                mask |= (u32::from(self.last) >> shape.weekday(day) & 1) << day;
            }
        }
        mask
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = u32> + Clone {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// The Gregorian calendar repeats after 400 years, weekdays included. A day that is in none of their months, nor in the
/// rest of the month in which the search begins, never comes.
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
