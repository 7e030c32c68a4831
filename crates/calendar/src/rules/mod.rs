//! Calendar rules that no cron expression can say: every n days, weeks, months and years from an anchor, business days.

mod business_days;
mod month_day;
mod next_on_the_wall;
pub(crate) mod text;

use std::fmt;

pub use business_days::BusinessDays;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
pub use month_day::{MonthDay, MonthEnd};

use crate::zone::{InZone, WallTimes};

/// Times on the wall that repeat by days, weeks, months or years from an anchor.
///
/// A constructor makes a rule, and `on`, `at` and `until` narrow it. By default a rule is at midnight, without an end.
/// Nothing before the anchor matches.
///
/// | every n | which days |
/// |---|---|
/// | [`days`](Self::days) | the anchor, and each nth day after it; with [`on`](Self::on) only days on these weekdays, with [`on_business_days`](Self::on_business_days) only business days |
/// | [`weeks`](Self::weeks) | the anchor's weekday in each nth week; with [`on`](Self::on) these weekdays. Weeks begin on Monday |
/// | [`months`](Self::months), [`years`](Self::years) | a [`MonthDay`] of each nth month, or of the anchor's month in each nth year |
///
/// For every n hours or minutes of real time use [`Periodic`](crate::Periodic).
///
/// # Examples
///
/// ```
/// use jiff::{civil::{date, time}, tz::TimeZone};
/// use timingwheel_calendar::{BusinessDays, Calendar, MonthDay, MonthEnd, Rule};
///
/// let berlin = TimeZone::get("Europe/Berlin")?;
/// // The last business day of each month, at six in the evening.
/// let report = Calendar::months(1, date(2026, 1, 1), MonthDay::BusinessDay(-1))
///     .with_business_days(BusinessDays::monday_to_friday().with_yearly_holiday(12, 31))
///     .at(time(18, 0, 0, 0))
///     .in_zone(berlin.clone());
/// assert_eq!(report.after("2026-12-01T00:00:00Z".parse()?), Some("2026-12-30T17:00:00Z".parse()?));
///
/// // The 31st, and in shorter months the last day; counted from the anchor, so March has its 31st again.
/// let rent = Calendar::months(1, date(2026, 1, 31), MonthEnd::Clamp).in_zone(berlin);
/// let days: Vec<String> = rent
///     .upcoming("2026-01-01T00:00:00Z".parse()?)
///     .take(3)
///     .map(|at| at.to_zoned(rent.zone().clone()).date().to_string())
///     .collect();
/// assert_eq!(days, ["2026-01-31", "2026-02-28", "2026-03-31"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Calendar {
    every: Every,
    anchor: Date,
    /// In their order, at least one, each once.
    seconds_of_day: Vec<i64>,
    until: Option<Date>,
    business_days: BusinessDays,
}

/// The unit, how many of it, and the days that are chosen in it.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Every {
    Days(u32, Filter),
    /// A bit for each weekday, of which 0 is Sunday.
    Weeks(u32, u8),
    /// Years are twelve.
    Months(u32, Vec<MonthDay>),
}

/// A choice among every n days: these weekdays, and business days only if that is set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Filter {
    /// A bit for each weekday, of which 0 is Sunday.
    weekdays: u8,
    business_days: bool,
}

impl Filter {
    const ALL: Self = Self { weekdays: 0x7f, business_days: false };

    const fn has_weekdays(self) -> bool {
        self.weekdays != Self::ALL.weekdays
    }
}

/// The most that [`Calendar::years`] takes.
pub(crate) const MOST_YEARS: u32 = 100_000;

impl Calendar {
    fn new(every: Every, anchor: Date) -> Self {
        Self {
            every,
            anchor,
            seconds_of_day: vec![0],
            until: None,
            business_days: BusinessDays::monday_to_friday(),
        }
    }

    /// Every `n` days: the anchor is the first.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn days(n: u32, anchor: Date) -> Self {
        assert!(n > 0, "the number of days must be at least 1, got 0");
        Self::new(Every::Days(n, Filter::ALL), anchor)
    }

    /// Every `n` weeks, on the weekday of the anchor unless [`on`](Self::on) says otherwise.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    #[track_caller]
    pub fn weeks(n: u32, anchor: Date) -> Self {
        assert!(n > 0, "the number of weeks must be at least 1, got 0");
        Self::new(Every::Weeks(n, bit(anchor.weekday())), anchor)
    }

    /// Every `n` months, from the month of the anchor on, on a day of each.
    ///
    /// A [`MonthEnd`] alone means the day of the anchor; it chooses the behaviour in months that are too short for this
    /// day.
    ///
    /// # Panics
    /// If `n` is 0, or if there is no such day; see [`MonthDay`].
    #[must_use]
    #[track_caller]
    pub fn months(n: u32, anchor: Date, day: impl Into<MonthDay>) -> Self {
        assert!(n > 0, "the number of months must be at least 1, got 0");
        Self::new(Every::Months(n, vec![checked(day.into())]), anchor)
    }

    /// Every `n` years, in the month of the anchor.
    ///
    /// # Panics
    /// If `n` is 0 or more than 100,000, or if there is no such day; see [`MonthDay`].
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::{civil::date, tz::TimeZone};
    /// use timingwheel_calendar::{Calendar, MonthEnd, Rule};
    ///
    /// let birthday = Calendar::years(1, date(2000, 2, 29), MonthEnd::Clamp).in_zone(TimeZone::UTC);
    /// assert_eq!(birthday.after("2026-01-01T00:00:00Z".parse()?), Some("2026-02-28T00:00:00Z".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn years(n: u32, anchor: Date, day: impl Into<MonthDay>) -> Self {
        assert!(n > 0, "the number of years must be at least 1, got 0");
        assert!(n <= MOST_YEARS, "the number of years must be at most {MOST_YEARS}, got {n}");
        Self::new(Every::Months(12 * n, vec![checked(day.into())]), anchor)
    }

    /// Once, at this time on the wall. A fraction of a second counts as a whole second.
    #[must_use]
    pub fn once(at: DateTime) -> Self {
        let nanos = i32::from(at.subsec_nanosecond() > 0);
        let at = at.saturating_add(jiff::SignedDuration::from_secs(nanos.into()));
        let mut once = Self::days(1, at.date()).until(at.date());
        once.seconds_of_day = vec![second_of_day(at.time())];
        once
    }

    /// Only these weekdays.
    ///
    /// A rule by days keeps only its days on these weekdays. With [`on_business_days`](Self::on_business_days), a day
    /// must also be a business day. A rule by weeks has each of these weekdays in each nth week, from the anchor on.
    ///
    /// # Panics
    /// If there is none, or if the rule is by months or years, whose days a [`MonthDay`] chooses.
    #[must_use]
    #[track_caller]
    pub fn on(mut self, weekdays: impl IntoIterator<Item = Weekday>) -> Self {
        let mask = mask(weekdays);
        assert!(mask != 0, "`on` must name at least one weekday, got none");
        match &mut self.every {
            Every::Days(_, filter) => filter.weekdays = mask,
            Every::Weeks(_, weekdays) => *weekdays = mask,
            Every::Months(..) => {
                panic!(
                    "`on` is for rules by days or weeks: choose a weekday of a month with MonthDay::Weekday"
                )
            }
        }
        self
    }

    /// Only business days. With [`on`](Self::on), a day must also fall on one of those weekdays.
    ///
    /// # Panics
    /// If the rule is not by days.
    #[must_use]
    #[track_caller]
    pub fn on_business_days(mut self, business_days: BusinessDays) -> Self {
        let Every::Days(_, filter) = &mut self.every else {
            panic!(
                "`on_business_days` is for rules by days: choose a business day of a month with MonthDay::BusinessDay"
            )
        };
        filter.business_days = true;
        self.with_business_days(business_days)
    }

    /// Adds another day of each month.
    ///
    /// # Panics
    /// If the rule is not by months or years, or if there is no such day; see [`MonthDay`].
    #[must_use]
    #[track_caller]
    pub fn and_on(mut self, day: impl Into<MonthDay>) -> Self {
        let Every::Months(_, days) = &mut self.every else {
            panic!("`and_on` is for rules by months or years")
        };
        let day = checked(day.into());
        if !days.contains(&day) {
            days.push(day);
        }
        self
    }

    /// The business days for each [`MonthDay`] that asks for one; Monday to Friday if they are not set.
    #[must_use]
    pub fn with_business_days(mut self, business_days: BusinessDays) -> Self {
        self.business_days = business_days;
        self
    }

    /// At this time of the day, and no other. Fractions of a second are cut off.
    #[must_use]
    pub fn at(self, time: Time) -> Self {
        self.at_each([time])
    }

    /// At each of these times of the day.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn at_each(mut self, times: impl IntoIterator<Item = Time>) -> Self {
        self.seconds_of_day = times.into_iter().map(second_of_day).collect();
        assert!(
            !self.seconds_of_day.is_empty(),
            "`at_each` must name at least one time of the day, got none"
        );
        self.seconds_of_day.sort_unstable();
        self.seconds_of_day.dedup();
        self
    }

    /// The last date, which is included.
    #[must_use]
    pub const fn until(mut self, last: Date) -> Self {
        self.until = Some(last);
        self
    }

    /// This rule by the clocks of a time zone.
    #[must_use]
    pub const fn in_zone(self, zone: TimeZone) -> InZone<Self> {
        InZone::new(self, zone)
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}

impl WallTimes for Calendar {
    fn next(&self, last: crate::wall::Wall) -> Option<crate::wall::Wall> {
        self.next_on_the_wall(last)
    }

    fn is_interval(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        Self::describe(self)
    }
}

#[track_caller]
fn checked(day: MonthDay) -> MonthDay {
    match day.problem() {
        None => day,
        Some(problem) => panic!("{problem}"),
    }
}

/// 0 is Sunday.
fn bit(weekday: Weekday) -> u8 {
    1 << weekday.to_sunday_zero_offset()
}

fn mask(weekdays: impl IntoIterator<Item = Weekday>) -> u8 {
    weekdays.into_iter().fold(0, |mask, weekday| mask | bit(weekday))
}

fn second_of_day(time: Time) -> i64 {
    (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60 + i64::from(time.second())
}
