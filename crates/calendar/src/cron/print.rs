//! Prints an expression: as a short text, which reads back as an equal expression, and as a sentence for people.

use std::fmt;

use super::Cron;
use super::field::{CronField, MONTHS, WEEKDAYS, clock_times, list, ordinal, runs, spans};
use super::next_on_the_wall::bits;

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only 0, as where the field is left out.
        if self.seconds != 1 {
            write!(f, "{} ", self.numbers(self.seconds, CronField::Second))?;
        }
        let minutes = self.numbers(self.minutes, CronField::Minute);
        let hours = self.numbers(self.hours.into(), CronField::Hour);
        let months = self.numbers(self.months.into(), CronField::Month);
        write!(f, "{minutes} {hours} {} {months} {}", self.days_of_month(), self.days_of_week())
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({self})")
    }
}

impl Cron {
    fn numbers(&self, mask: u64, field: CronField) -> String {
        let found = step_and_rest(mask, field);
        let has_star = match field {
            // A `*` has no other meaning there: it stands for all of a step, if these are more than one.
            CronField::Second | CronField::Month => mask.count_ones() > 1 && matches!(found, Some((_, 0))),
            _ => self.stars.has(field),
        };
        match found {
            Some((step, rest)) if has_star => {
                let star = if step == 1 { "*".into() } else { format!("*/{step}") };
                if rest == 0 { star } else { format!("{star},{}", ranges(rest)) }
            }
            _ => ranges(mask),
        }
    }

    fn days_of_month(&self) -> String {
        let days = &self.days;
        let mut parts = Vec::new();
        if days.numbers != 0 {
            parts.push(self.numbers(days.numbers.into(), CronField::DayOfMonth));
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
        let mut parts = Vec::new();
        if days.weekdays != 0 {
            parts.push(self.numbers(days.weekdays.into(), CronField::DayOfWeek));
        }
        for (index, &weekdays) in days.nth.iter().enumerate() {
            parts.extend(bits(weekdays.into()).map(|weekday| format!("{weekday}#{}", index + 1)));
        }
        parts.extend(bits(days.last.into()).map(|weekday| format!("{weekday}#L")));
        parts.join(",")
    }
}

/// Finds the smallest step whose numbers are all in the mask. Returns it with the remaining numbers of the mask.
fn step_and_rest(mask: u64, field: CronField) -> Option<(u32, u64)> {
    (1..=field.limits().1).find_map(|step| {
        let all = numbers_of(field, step);
        (mask & all == all).then_some((step, mask & !all))
    })
}

/// Every `step`th number of a field.
fn numbers_of(field: CronField, step: u32) -> u64 {
    let (least, most) = field.range();
    let mut all = 0;
    let mut number = least;
    while number <= most {
        all |= 1 << number;
        number += step;
    }
    all
}

fn ranges(mask: u64) -> String {
    let parts = runs(mask).map(|(from, to)| match to - from {
        0 => from.to_string(),
        1 => format!("{from},{to}"),
        _ => format!("{from}-{to}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// More times of a day than this are not listed.
const LISTED: u32 = 6;

impl Cron {
    /// The meaning in a few words of English, for people. The words may change.
    ///
    /// # Examples
    ///
    /// ```
    /// use timingwheel_calendar::Cron;
    ///
    /// let meaning = |text| Cron::parse(text).unwrap().describe();
    /// assert_eq!(meaning("*/15 9-17 * * 1-5"), "every 15 minutes, in hours 9 to 17, on Monday to Friday");
    /// assert_eq!(meaning("0 18 L * *"), "at 18:00 on the last day of the month");
    /// assert_eq!(meaning("0 9 * JAN,JUL FRI#3"), "at 09:00 on the third Friday, in January and July");
    /// assert_eq!(meaning("0 0 13 * FRI"), "at 00:00 on the 13th of the month or on Friday");
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = self.times();
        let is_listed = self.has_few_times() && !text.contains(',');
        let days = self.which_days();
        let joint = if is_listed { " " } else { ", " };
        if !days.is_empty() {
            text = format!("{text}{joint}{days}");
        } else if is_listed {
            text.push_str(" every day");
        }
        if u64::from(self.months) != numbers_of(CronField::Month, 1) {
            let months = spans(self.months.into(), |month| MONTHS[index(month - 1)].into());
            text = format!("{text}, in {months}");
        }
        text
    }

    fn has_few_times(&self) -> bool {
        self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones() <= LISTED
    }

    fn times(&self) -> String {
        if self.has_few_times() {
            let times = bits(self.hours).flat_map(|hour| {
                of(self.minutes).flat_map(move |minute| {
                    of(self.seconds).map(move |second| i64::from((hour * 60 + minute) * 60 + second))
                })
            });
            return format!("at {}", clock_times(times));
        }
        let mut parts = Vec::new();
        let all_minutes = self.minutes == numbers_of(CronField::Minute, 1);
        if self.seconds != 1 {
            let seconds = every(self.seconds, CronField::Second, "second");
            let of_minutes = if all_minutes && seconds.starts_with("at") { " of every minute" } else { "" };
            parts.push(seconds + of_minutes);
        }
        if self.minutes == 1 && self.seconds == 1 {
            parts.push("on the hour".into());
        } else if !(all_minutes && self.seconds != 1) {
            parts.push(every(self.minutes, CronField::Minute, "minute"));
        }
        if u64::from(self.hours) != numbers_of(CronField::Hour, 1) {
            parts.push(match step_of(self.hours.into(), CronField::Hour) {
                Some(step) => format!("in every {} hour", ordinal(step)),
                None => every(self.hours.into(), CronField::Hour, "hour").replacen("at", "in", 1),
            });
        } else if !all_minutes && !parts.last().is_some_and(|last| last.starts_with("every")) {
            parts.push("every hour".into());
        }
        parts.join(", ")
    }

    fn which_days(&self) -> String {
        let by_number = self.by_number();
        let by_weekday = self.by_weekday();
        let all_numbers = u64::from(self.days.numbers) == numbers_of(CronField::DayOfMonth, 1);
        let all_weekdays = u64::from(self.days.weekdays) == numbers_of(CronField::DayOfWeek, 1);
        match (self.days.in_both, all_numbers, all_weekdays) {
            (true, true, true) | (false, true, _) | (false, _, true) => String::new(),
            (true, true, false) => format!("on {by_weekday}"),
            (true, false, true) => format!("on {by_number} of the month"),
            (true, false, false) => format!("on {by_number} of the month if it is {by_weekday}"),
            (false, false, false) => format!("on {by_number} of the month or on {by_weekday}"),
        }
    }

    fn by_number(&self) -> String {
        let days = &self.days;
        let mut parts = Vec::new();
        if days.numbers != 0 {
            parts.push(format!("the {}", spans(days.numbers.into(), ordinal)));
        }
        parts.extend(bits(days.nearest).map(|day| format!("the weekday nearest to the {}", ordinal(day))));
        parts.extend(bits(days.from_end & !1).map(|before| match before {
            1 => "the day before the last".into(),
            before => format!("the {} day before the last", ordinal(before)),
        }));
        if days.last_weekday {
            parts.push("the last weekday".into());
        }
        if days.from_end & 1 != 0 {
            parts.push("the last day".into());
        }
        list(&parts, "and")
    }

    fn by_weekday(&self) -> String {
        const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
        let days = &self.days;
        let name = |weekday: u32| WEEKDAYS[index(weekday)].to_owned();
        let mut parts = Vec::new();
        if days.weekdays != 0 {
            // Sunday last, as in a weekend.
            let from_monday = u64::from(days.weekdays >> 1 | (days.weekdays & 1) << 6);
            parts.push(spans(from_monday, |weekday| name((weekday + 1) % 7)));
        }
        for (nth, &weekdays) in NTH.iter().zip(&days.nth) {
            parts.extend(bits(weekdays.into()).map(|weekday| format!("the {nth} {}", name(weekday))));
        }
        parts.extend(bits(days.last.into()).map(|weekday| format!("the last {}", name(weekday))));
        list(&parts, "and")
    }
}

/// `every 15 minutes`, `at minutes 0, 7 and 30`.
fn every(mask: u64, field: CronField, unit: &str) -> String {
    match step_of(mask, field) {
        Some(1) => format!("every {unit}"),
        Some(step) => format!("every {step} {unit}s"),
        None if mask.count_ones() == 1 => format!("at {unit} {}", mask.trailing_zeros()),
        None => format!("at {unit}s {}", spans(mask, |number| number.to_string())),
    }
}

/// The step, if these are all of it. It must divide the field, or the step at the end would be shorter.
fn step_of(mask: u64, field: CronField) -> Option<u32> {
    let (step, rest) = step_and_rest(mask, field)?;
    (rest == 0 && (field.range().1 + 1).is_multiple_of(step)).then_some(step)
}

fn of(mask: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| mask >> bit & 1 != 0)
}

fn index(number: u32) -> usize {
    // At most 11.
    usize::try_from(number).unwrap_or(0)
}
