//! Words for numbers, days and lists.

use super::field::CronField;

/// The least and the greatest number that a mask of a field may have. Sunday is 0.
pub(super) const fn low(field: CronField) -> u32 {
    field.limits().0
}

pub(super) const fn high(field: CronField) -> u32 {
    match field {
        CronField::DayOfWeek => 6,
        _ => field.limits().1,
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

/// `09:00 and 17:30`.
pub(crate) fn clock_times(seconds_of_day: impl Iterator<Item = i64>) -> String {
    let clock = |second: i64| match second % 60 {
        0 => format!("{:02}:{:02}", second / 3_600, second / 60 % 60),
        rest => format!("{:02}:{:02}:{rest:02}", second / 3_600, second / 60 % 60),
    };
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
