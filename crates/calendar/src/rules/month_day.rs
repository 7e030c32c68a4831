//! A day of a month: by its number, from the end, by its weekday, by business days.

use jiff::civil::{Date, Weekday};

use super::BusinessDays;
use crate::wall::{Month, date_of_day, weekday_of_day};

/// The behaviour in a month that is too short for a day, as April is for the 31st. Neither behaviour is right for all, so
/// the caller names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MonthEnd {
    /// It is the last day of that month. Each month is counted from the anchor, so the next long one has the day again.
    Clamp,
    /// That month is left out, as in RFC 5545.
    LeaveOut,
}

/// A day of a month. A month that lacks the day is left out, unless [`MonthEnd::Clamp`] says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MonthDay {
    /// The number of the anchor.
    OfAnchor(MonthEnd),
    /// The day with this number, from 1 to 31.
    Number(u8, MonthEnd),
    /// This many days before the last, from 0, which is the last day, to 30.
    BeforeLast(u8),
    /// The nth such weekday from the first, 1 to 5, or from the last: -1 to -5.
    Weekday(Weekday, i8),
    /// The nth business day from the first, 1 to 31, or from the last: -1 to -31.
    BusinessDay(i8),
    /// The business day nearest to the day with this number, and the earlier of two that are as near. It does not leave
    /// the month.
    NearestBusinessDay(u8, MonthEnd),
}

impl From<MonthEnd> for MonthDay {
    fn from(end: MonthEnd) -> Self {
        Self::OfAnchor(end)
    }
}

impl MonthDay {
    /// Why no month has such a day.
    pub(super) fn problem(self) -> Option<String> {
        let (what, number, least, most) = match self {
            Self::OfAnchor(_) => return None,
            Self::Number(day, _) | Self::NearestBusinessDay(day, _) => {
                ("the day of a month", day.into(), 1, 31)
            }
            Self::BeforeLast(days) => ("the days before the last", days.into(), 0, 30),
            Self::Weekday(_, nth) => ("the number of a weekday", i32::from(nth), 1, 5),
            Self::BusinessDay(nth) => ("the number of a business day", nth.into(), 1, 31),
        };
        let from_last = if matches!(self, Self::Weekday(..) | Self::BusinessDay(_)) {
            format!(" or -1 to -{most}")
        } else {
            String::new()
        };
        let is_right = (least..=most).contains(&if from_last.is_empty() { number } else { number.abs() });
        (!is_right).then(|| format!("{what} must be {least} to {most}{from_last}, got {number}"))
    }

    /// The number of the day in this month, if the month has it.
    pub(super) fn in_month(self, month: Month, anchor: Date, business_days: &BusinessDays) -> Option<u32> {
        let last = month.days();
        let number = |day: u32, end| match end {
            MonthEnd::Clamp => Some(day.min(last)),
            MonthEnd::LeaveOut => (day <= last).then_some(day),
        };
        let first_day = month.first_day();
        let is_business_day = |day: &u32| {
            date_of_day(first_day + i64::from(*day) - 1).is_some_and(|date| business_days.contains(date))
        };
        match self {
            // From 1 to 31.
            Self::OfAnchor(end) => number(anchor.day().unsigned_abs().into(), end),
            Self::Number(day, end) => number(day.into(), end),
            Self::BeforeLast(days) => last.checked_sub(days.into()).filter(|&day| day > 0),
            Self::Weekday(weekday, nth) => {
                // Sunday is 0 in both.
                let weekday = u32::from(weekday.to_sunday_zero_offset().unsigned_abs());
                let is_it = |day: &u32| weekday_of_day(first_day + i64::from(*day) - 1) == weekday;
                nth_of((1..=last).filter(is_it), (1..=last).rev().filter(is_it), nth)
            }
            Self::BusinessDay(nth) => {
                nth_of((1..=last).filter(is_business_day), (1..=last).rev().filter(is_business_day), nth)
            }
            Self::NearestBusinessDay(day, end) => {
                let day = number(day.into(), end)?;
                // The earlier day first, so that it is taken of two.
                (0..last).find_map(|away| {
                    let sides = [day.checked_sub(away).filter(|&day| day > 0), Some(day + away)];
                    sides.into_iter().flatten().filter(|&day| day <= last).find(is_business_day)
                })
            }
        }
    }
}

fn nth_of(
    mut from_first: impl Iterator<Item = u32>,
    mut from_last: impl Iterator<Item = u32>,
    nth: i8,
) -> Option<u32> {
    let before = usize::from(nth.unsigned_abs()) - 1;
    if nth > 0 { from_first.nth(before) } else { from_last.nth(before) }
}
