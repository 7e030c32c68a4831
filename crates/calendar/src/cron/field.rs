//! The six fields of an expression: what they are called, and what may stand in each.

use std::fmt;

/// A field of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CronField {
    /// The first of six fields; 0 where there are five.
    Second,
    /// From 0 to 59.
    Minute,
    /// From 0 to 23.
    Hour,
    /// From 1 to 31.
    DayOfMonth,
    /// From 1 to 12, or `JAN` to `DEC`.
    Month,
    /// From 0 to 7, both of which are Sunday, or `SUN` to `SAT`. In Quartz's expressions from 1, Sunday, to 7, Saturday.
    DayOfWeek,
}

/// How texts are read that cron and Quartz disagree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 0 and 7 are Sunday.
    Vixie,
    /// 1 is Sunday, and 7 is Saturday. A range may go over the end of its field.
    Quartz,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(crate) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl CronField {
    pub(crate) const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    /// The least and the greatest number.
    pub(crate) const fn limits(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }

    /// The names, and the number of the first.
    pub(crate) const fn names(self) -> (&'static [&'static str], u32) {
        match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            _ => (&[], 0),
        }
    }

    /// What may stand there.
    pub(super) const fn takes(self, dialect: Dialect) -> &'static str {
        match self {
            Self::DayOfWeek if matches!(dialect, Dialect::Quartz) => {
                "1 (Sunday) to 7 (Saturday) or SUN to SAT, `*`, `?`, ranges as MON-FRI, steps as */2, FRI#2 for the \
                 second Friday, FRIL for the last, L for Saturday, lists of these as MON,THU"
            }
            Self::Second | Self::Minute => {
                "0 to 59, `*`, ranges as 10-20, steps as */15 or 5/15, lists of these as 0,30"
            }
            Self::Hour => "0 to 23, `*`, ranges as 9-17, steps as */2 or 8/4, lists of these as 8,12,18",
            Self::DayOfMonth => {
                "1 to 31, `*`, `?`, ranges as 1-7, steps as */2, L for the last day, L-2 for two days before it, 15W \
                 for the weekday nearest to the 15th, LW for the last weekday, lists of these as 1,15,L"
            }
            Self::Month => {
                "1 to 12 or JAN to DEC, `*`, ranges as JUN-AUG, steps as */3, lists of these as 1,7"
            }
            Self::DayOfWeek => {
                "0 to 7 (both Sunday) or SUN to SAT, `*`, `?`, ranges as MON-FRI, steps as */2, FRI#2 for the second \
                 Friday, FRI#L or FRIL for the last, lists of these as MON,THU"
            }
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}
