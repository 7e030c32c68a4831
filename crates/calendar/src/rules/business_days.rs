//! Business days: all days but weekends and holidays.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use jiff::civil::{Date, Weekday};

use super::text::weekdays_of;
use super::{bit, mask};

/// Business days: all but the days of the weekend and the holidays that you give.
///
/// It is a value, and not a function, so that a rule with holidays can be compared, stored and printed, and so that a
/// search can prove that there is no further day. [`with_holidays_where`](Self::with_holidays_where) takes a function
/// for some years.
///
/// # Examples
///
/// ```
/// use jiff::civil::date;
/// use timingwheel_calendar::BusinessDays;
///
/// let days = BusinessDays::monday_to_friday().with_yearly_holiday(12, 25).with_holidays([date(2026, 4, 3)]);
/// assert!(!days.contains(date(2026, 4, 3)), "Good Friday");
/// assert!(!days.contains(date(2026, 12, 25)));
/// assert!(!days.contains(date(2026, 12, 26)), "a Saturday");
/// assert!(days.contains(date(2026, 12, 28)));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BusinessDays {
    /// A bit for each weekday, of which 0 is Sunday.
    pub(super) weekend: u8,
    /// Months and days.
    pub(super) yearly: BTreeSet<(i8, i8)>,
    pub(super) dates: BTreeSet<Date>,
}

impl BusinessDays {
    /// Monday to Friday, without holidays.
    #[must_use]
    pub fn monday_to_friday() -> Self {
        Self::without([Weekday::Saturday, Weekday::Sunday])
    }

    /// All days except weekends, without holidays.
    #[must_use]
    pub fn without(weekend: impl IntoIterator<Item = Weekday>) -> Self {
        Self { weekend: mask(weekend), yearly: BTreeSet::new(), dates: BTreeSet::new() }
    }

    /// These dates are holidays too.
    #[must_use]
    pub fn with_holidays(mut self, dates: impl IntoIterator<Item = Date>) -> Self {
        self.dates.extend(dates);
        self
    }

    /// This day is a holiday in each year.
    ///
    /// # Panics
    /// If no year has it.
    #[must_use]
    #[track_caller]
    pub fn with_yearly_holiday(mut self, month: i8, day: i8) -> Self {
        assert!(
            is_in_some_year(month, day),
            "a yearly holiday must be a day that some year has, got month {month}, day {day}"
        );
        self.yearly.insert((month, day));
        self
    }

    /// Each date of these years for which `is_holiday` returns `true` is a holiday too. It is called at once, for every
    /// date.
    #[must_use]
    pub fn with_holidays_where(
        self,
        years: RangeInclusive<i16>,
        mut is_holiday: impl FnMut(Date) -> bool,
    ) -> Self {
        let first = Date::new(*years.start(), 1, 1).ok();
        let dates = std::iter::successors(first, |date| date.tomorrow().ok());
        let dates = dates.take_while(|date| years.contains(&date.year()));
        let holidays: Vec<Date> = dates.filter(|&date| is_holiday(date)).collect();
        self.with_holidays(holidays)
    }

    /// Whether this is a business day.
    #[must_use]
    pub fn contains(&self, date: Date) -> bool {
        self.weekend & bit(date.weekday()) == 0
            && !self.yearly.contains(&(date.month(), date.day()))
            && !self.dates.contains(&date)
    }
}

impl fmt::Debug for BusinessDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { weekend, yearly, dates } = self;
        f.debug_struct("BusinessDays")
            .field("weekend", &weekdays_of(*weekend).collect::<Vec<_>>())
            .field("yearly", yearly)
            .field("dates", dates)
            .finish()
    }
}

impl Default for BusinessDays {
    /// Monday to Friday, without holidays.
    fn default() -> Self {
        Self::monday_to_friday()
    }
}

/// A leap year has them all.
pub(super) fn is_in_some_year(month: i8, day: i8) -> bool {
    Date::new(2000, month, day).is_ok()
}
