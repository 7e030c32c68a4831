//! Which days of a month an expression names.

use crate::wall::{Month, weekday_of_day};

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

/// What there is to know of a month, to find its days.
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
