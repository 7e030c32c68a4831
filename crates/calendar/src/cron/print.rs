//! An expression as a short text that is read as an equal one.

use std::fmt;

use super::Cron;
use super::field::CronField;
use super::next_on_the_wall::bits;
use super::words::{high, low, runs};

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only 0, as where the field is left out.
        if self.seconds != 1 {
            write!(
                f,
                "{} ",
                numbers(self.seconds, CronField::Second, is_even(self.seconds, CronField::Second))
            )?;
        }
        let has_star = |field| self.stars.has(field);
        write!(
            f,
            "{} {} {} {} {}",
            numbers(self.minutes, CronField::Minute, has_star(CronField::Minute)),
            numbers(self.hours.into(), CronField::Hour, has_star(CronField::Hour)),
            self.days_of_month(),
            numbers(self.months.into(), CronField::Month, is_even(self.months.into(), CronField::Month)),
            self.days_of_week(),
        )
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({self})")
    }
}

impl Cron {
    fn days_of_month(&self) -> String {
        let days = &self.days;
        let has_star = self.stars.has(CronField::DayOfMonth);
        let mut parts = Vec::new();
        if days.numbers != 0 {
            parts.push(numbers(days.numbers.into(), CronField::DayOfMonth, has_star));
        }
        parts.extend(bits(days.nearest).map(|day| format!("{day}W")));
        // Whatever is last in a month comes last.
        parts.extend(bits(days.from_end & !1).map(|before| format!("L-{before}")));
        if days.last_weekday {
            parts.push("LW".into());
        }
        if days.from_end & 1 != 0 {
            parts.push("L".into());
        }
        parts.join(",")
    }

    fn days_of_week(&self) -> String {
        let days = &self.days;
        let has_star = self.stars.has(CronField::DayOfWeek);
        let mut parts = Vec::new();
        if days.weekdays != 0 {
            parts.push(numbers(days.weekdays.into(), CronField::DayOfWeek, has_star));
        }
        for (index, &weekdays) in days.nth.iter().enumerate() {
            parts.extend(bits(weekdays.into()).map(|weekday| format!("{weekday}#{}", index + 1)));
        }
        parts.extend(bits(days.last.into()).map(|weekday| format!("{weekday}#L")));
        parts.join(",")
    }
}

/// Whether the numbers are all of a step's, and more than one: for fields where a `*` has no other meaning.
fn is_even(mask: u64, field: CronField) -> bool {
    mask.count_ones() > 1 && every(mask, field).is_some_and(|(_, rest)| rest == 0)
}

/// The least step of which all numbers are in the mask, and what is in it besides.
fn every(mask: u64, field: CronField) -> Option<(u32, u64)> {
    let (least, most) = (low(field), high(field));
    (1..=field.limits().1).find_map(|step| {
        let all =
            (least..=most).step_by(usize::try_from(step).ok()?).fold(0, |all, number| all | 1_u64 << number);
        (mask & all == all).then_some((step, mask & !all))
    })
}

fn numbers(mask: u64, field: CronField, has_star: bool) -> String {
    if has_star && let Some((step, rest)) = every(mask, field) {
        let star = if step == 1 { "*".into() } else { format!("*/{step}") };
        return if rest == 0 { star } else { format!("{star},{}", ranges(rest)) };
    }
    ranges(mask)
}

fn ranges(mask: u64) -> String {
    let parts = runs(mask).map(|(from, to)| match to - from {
        0 => from.to_string(),
        1 => format!("{from},{to}"),
        _ => format!("{from}-{to}"),
    });
    parts.collect::<Vec<_>>().join(",")
}
