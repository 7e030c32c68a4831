//! Cron expressions.

mod error;
mod field;
mod next_on_the_wall;
mod parse;
mod print;

use std::str::FromStr;

pub use error::CronError;
pub use field::CronField;
use field::Dialect;
pub(crate) use field::{WEEKDAYS, clock, clock_times, list, ordinal, position};
use jiff::tz::TimeZone;
use next_on_the_wall::Days;

use crate::wall::Wall;
use crate::zone::{InZone, WallTimes};

/// A cron expression: times that a wall clock shows, not yet in a time zone. [`in_zone`](Self::in_zone) adds the zone.
///
/// It is a small value that allocates nothing. Two expressions are equal if their fields match the same numbers and
/// days, and if the same fields of minutes, hours and days begin with `*`. In these fields a `*` has a meaning of its
/// own. So `0 0 * * *` and `0 0 1-31 * *` are not equal, though their instants are the same. Equal expressions print
/// the same text: [`Display`](std::fmt::Display) writes a short text, which [`parse`](Self::parse) reads.
///
/// # What it means
///
/// An expression has five fields, or six with the second first. Any whitespace may stand between them. Names may be in
/// upper or lower case.
///
/// | field | numbers | names | besides |
/// |---|---|---|---|
/// | second, 0 if left out | 0–59 | | |
/// | minute | 0–59 | | |
/// | hour | 0–23 | | |
/// | day of month | 1–31 | | `?`, `L`, `L-n`, `nW`, `LW` |
/// | month | 1–12 | `JAN`–`DEC` | |
/// | day of week | 0–7, both Sunday | `SUN`–`SAT` | `?`, `n#k`, `n#L`, `nL` |
///
/// | written | means |
/// |---|---|
/// | `*` | all |
/// | `9-17`, `MON-FRI`, `FRI-SUN` | from, to, both included |
/// | `*/15`, `10-40/15`, `5/15` | every 15th of all; from 10 to 40; from 5 to the end |
/// | `1,15,20-25` | each of the list |
/// | `?` | as `*`, in either field of days |
/// | `L`, `L-2` | the last day of the month; two days before it |
/// | `15W`, `LW` | the weekday, Monday to Friday, nearest to the 15th; the last one. Neither leaves the month. No 31W in a month of 30 days |
/// | `FRI#2`, `5#2` | the second Friday of the month |
/// | `FRI#L`, `FRIL`, `5L` | the last Friday of the month |
/// | `@yearly`, `@annually` | `0 0 1 1 *` |
/// | `@monthly` | `0 0 1 * *` |
/// | `@weekly` | `0 0 * * 0` |
/// | `@daily`, `@midnight` | `0 0 * * *` |
/// | `@hourly` | `0 * * * *` |
///
/// **Day of month and day of week**, as in Vixie's cron: if both fields are given, a day has to match only one of them:
/// `0 0 13 * FRI` is each 13th and each Friday. If one of the two begins with `*`, or is `?`, a day has to match both:
/// `0 0 */2 * FRI` is each Friday with an odd number. In `0 0 * * FRI` the `*` matches all days, so the expression is
/// each Friday.
///
/// **Fixed times and intervals**, as in Vixie's cron: an expression whose minute or hour begins with `*` is an
/// [interval](Self::is_interval). Any other expression asks for fixed times, even if it has lists and ranges. The
/// difference matters only on days on which clocks change: see [`InZone`].
///
/// # Examples
///
/// ```
/// use timingwheel_calendar::Cron;
///
/// let rule = Cron::parse("0 9 * * mon-fri")?;
/// assert_eq!(rule.to_string(), "0 9 * * 1-5");
/// assert_eq!(rule, "0 9 ? * 1,2,3,4,5".parse()?);
/// assert_eq!(rule.describe(), "at 09:00 on Monday to Friday");
/// # Ok::<(), timingwheel_calendar::CronError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cron {
    /// Bits 0 to 59.
    seconds: u64,
    minutes: u64,
    /// Bits 0 to 23.
    hours: u32,
    /// Bits 1 to 12.
    months: u16,
    days: Days,
    stars: Stars,
}

/// The fields that begin with `*`: a bit for each field in which that matters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Stars(u8);

impl Stars {
    const fn bit(field: CronField) -> u8 {
        match field {
            CronField::Minute => 1,
            CronField::Hour => 2,
            CronField::DayOfMonth => 4,
            CronField::DayOfWeek => 8,
            CronField::Second | CronField::Month => 0,
        }
    }

    fn set(&mut self, field: CronField, has_star: bool) {
        if has_star {
            self.0 |= Self::bit(field);
        }
    }

    const fn has(self, field: CronField) -> bool {
        self.0 & Self::bit(field) != 0
    }
}

impl Cron {
    /// Reads an expression of five or six fields, or a name as `@daily`.
    ///
    /// # Errors
    /// If `text` is not a cron expression. The error quotes the text, points at the place, and says what may stand there.
    /// An expression for a day that never comes, such as 30 February, is not an error; its rule has no instants.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        parse::parse(text, Dialect::Vixie)
    }

    /// Reads an expression in Quartz's form. It has six fields, or seven if the year is `*`. Days of the week go from 1
    /// (Sunday) to 7 (Saturday). `L` alone as the day of the week is Saturday. A range may wrap round the end of its
    /// field: `22-2`, `NOV-FEB`, `FRI-MON`.
    ///
    /// Everything else means the same as in [`parse`](Self::parse). This includes fixed times and intervals on days on
    /// which clocks change. It also includes a day of month together with a day of week, which Quartz refuses.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and if the expression names years.
    ///
    /// # Examples
    ///
    /// ```
    /// use timingwheel_calendar::Cron;
    ///
    /// assert_eq!(Cron::parse_quartz("0 0 9 ? * 2-6")?, Cron::parse("0 9 * * MON-FRI")?);
    /// # Ok::<(), timingwheel_calendar::CronError>(())
    /// ```
    pub fn parse_quartz(text: &str) -> Result<Self, CronError> {
        parse::parse(text, Dialect::Quartz)
    }

    /// This rule by the clocks of a time zone. A rule for UTC takes [`TimeZone::UTC`].
    #[must_use]
    pub const fn in_zone(self, zone: TimeZone) -> InZone<Self> {
        InZone::new(self, zone)
    }

    /// Whether the minute or the hour begins with `*`. Such an expression runs by real time when clocks change. Any
    /// other expression runs at fixed times on the wall.
    #[must_use]
    pub const fn is_interval(&self) -> bool {
        self.stars.has(CronField::Minute) || self.stars.has(CronField::Hour)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        Self::parse(text)
    }
}

impl WallTimes for Cron {
    #[inline]
    fn next(&self, last: Wall) -> Option<Wall> {
        self.next_on_the_wall(last)
    }

    fn is_interval(&self) -> bool {
        Self::is_interval(self)
    }

    fn describe(&self) -> String {
        Self::describe(self)
    }
}
