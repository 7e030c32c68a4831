//! The six fields of an expression: their names, their numbers, and words for both.

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

/// The reading of texts about which cron and Quartz disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 0 and 7 are Sunday.
    Vixie,
    /// 1 is Sunday, and 7 is Saturday. A range may go over the end of its field.
    Quartz,
}

/// In texts they are cut to three letters.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Finds a weekday or a month by its three letters, in either case.
pub(crate) fn position(names: &[&str], text: &str) -> Option<u32> {
    let index = names.iter().position(|name| name[..3].eq_ignore_ascii_case(text))?;
    u32::try_from(index).ok()
}

impl CronField {
    pub(super) const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    /// The least and the greatest number that may be written.
    pub(super) const fn limits(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }

    /// The names, and the number of the first.
    pub(super) const fn names(self) -> (&'static [&'static str], u32) {
        match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            _ => (&[], 0),
        }
    }

    /// The least and the greatest number of a mask, in which Sunday is 0.
    pub(super) const fn range(self) -> (u32, u32) {
        match self {
            Self::DayOfWeek => (0, 6),
            _ => self.limits(),
        }
    }

    /// As in "25 is not an hour".
    pub(super) const fn article(self) -> &'static str {
        if matches!(self, Self::Hour) { "an" } else { "a" }
    }

    /// The values that may stand there.
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
            Self::DayOfMonth => "day of the month",
            Self::Month => "month",
            Self::DayOfWeek => "day of the week",
        })
    }
}

/// The numbers of a mask, as ranges from and to.
pub(super) fn runs(mut mask: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        let from = (mask != 0).then(|| mask.trailing_zeros())?;
        let length = (mask >> from).trailing_ones();
        // All from `from` to the end of the range.
        mask &= u64::MAX.checked_shl(from + length).unwrap_or(0);
        Some((from, from + length - 1))
    })
}

/// `a, b and c`.
pub(crate) fn list(parts: &[String], last: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

pub(crate) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `09:00`, or `09:00:30`.
pub(crate) fn clock(second: i64) -> String {
    let (hour, minute, rest) = (second / 3_600, second / 60 % 60, second % 60);
    if rest == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{rest:02}") }
}

/// `09:00 and 17:30`.
pub(crate) fn clock_times(seconds_of_day: impl Iterator<Item = i64>) -> String {
    list(&seconds_of_day.map(clock).collect::<Vec<_>>(), "and")
}

/// `1, 3 to 5 and 9`, each written by `name`.
pub(super) fn spans(mask: u64, name: impl Fn(u32) -> String) -> String {
    let parts = runs(mask).flat_map(|(from, to)| match to - from {
        0 => vec![name(from)],
        1 => vec![name(from), name(to)],
        _ => vec![format!("{} to {}", name(from), name(to))],
    });
    list(&parts.collect::<Vec<_>>(), "and")
}
