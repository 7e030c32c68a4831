//! What an expression means, in a sentence.

use super::Cron;
use super::field::CronField;
use super::next_on_the_wall::bits;
use super::words::{clock_times, high, list, low, ordinal, spans};

/// More times of a day than this are not listed.
const LISTED: u32 = 6;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
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

impl Cron {
    /// What it means, in a few words of English. For people; the words may change.
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
        if u64::from(self.months) != all(CronField::Month) {
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
        let all_minutes = self.minutes == all(CronField::Minute);
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
        if u64::from(self.hours) != all(CronField::Hour) {
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
        let all_numbers = u64::from(self.days.numbers) == all(CronField::DayOfMonth);
        let all_weekdays = u64::from(self.days.weekdays) == all(CronField::DayOfWeek);
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

/// The step, if these are all of it. One that does not divide the field has a shorter one at its end, and is none.
fn step_of(mask: u64, field: CronField) -> Option<u32> {
    let numbers = high(field) + 1;
    (1..numbers).filter(|step| numbers.is_multiple_of(*step)).find(|&step| {
        let all = (0..numbers / step).fold(0, |all, nth| all | 1_u64 << (nth * step));
        mask == all
    })
}

fn all(field: CronField) -> u64 {
    (low(field)..=high(field)).fold(0, |all, number| all | 1 << number)
}

fn of(mask: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| mask >> bit & 1 != 0)
}

fn index(number: u32) -> usize {
    // At most 11.
    usize::try_from(number).unwrap_or(0)
}
