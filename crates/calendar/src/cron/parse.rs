//! Reads an expression from a text.

use std::ops::Range;

use super::error::CronError;
use super::field::{CronField, Dialect, WEEKDAYS, ordinal, position};
use super::next_on_the_wall::Days;
use super::{Cron, Stars};

/// No expression that means something is longer, even if it lists each number of each field.
const LONGEST: usize = 1_000;

const A_YEAR: &str = "a year needs Quartz's form of seven fields, see `Cron::parse_quartz`; `Combine::between` limits any rule";

/// An expression, cut into words.
struct Words<'a> {
    text: &'a str,
    dialect: Dialect,
    places: Vec<Range<usize>>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str, dialect: Dialect) -> Self {
        let (mut places, mut from) = (Vec::with_capacity(CronField::ALL.len()), 0);
        for word in text.split_inclusive(|c: char| c.is_ascii_whitespace()) {
            let length = word.trim_ascii_end().len();
            if length > 0 {
                places.push(from..from + length);
            }
            from += word.len();
        }
        Self { text, dialect, places }
    }

    #[cold]
    fn error(&self, place: Range<usize>, problem: impl Into<String>) -> CronError {
        CronError::new(self.dialect, self.text, place, None, problem)
    }

    /// Something is wrong with all words from this one on.
    fn wrong_from(&self, index: usize, problem: impl Into<String>) -> CronError {
        let end = self.text.trim_ascii_end().len();
        self.error(self.places.get(index).map_or(end, |place| place.start)..end, problem)
    }
}

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Cron, CronError> {
    if text.len() > LONGEST {
        return Err(CronError::too_long(text, LONGEST));
    }
    let words = Words::new(text, dialect);
    let first = words.places.first().map_or("", |place| &text[place.clone()]);
    if first.starts_with('@') {
        return nickname(&words, first);
    }
    if let Some((name @ ("CRON_TZ" | "TZ"), _)) = first.to_ascii_uppercase().split_once('=') {
        let problem = format!("{name}= is not part of an expression: give the zone to `Cron::in_zone`");
        return Err(words.error(words.places[0].clone(), problem));
    }
    let problem = match (words.places.len(), dialect) {
        (5, Dialect::Vixie) => return fields(&words, 1),
        (6, _) => return fields(&words, 0),
        (7, Dialect::Quartz) if &text[words.places[6].clone()] == "*" => return fields(&words, 0),
        (7, Dialect::Quartz) => {
            return Err(words.wrong_from(
                6,
                "years are not supported: leave the field out, and limit the rule with `Combine::between`",
            ));
        }
        (0, Dialect::Vixie) => {
            "the expression is empty: five fields are expected, as in 0 9 * * MON-FRI".into()
        }
        (0, Dialect::Quartz) => {
            "the expression is empty: six fields are expected, as in 0 0 9 ? * MON-FRI".into()
        }
        (7, Dialect::Vixie) => format!("at most six fields are expected, got 7: {A_YEAR}"),
        (count @ ..6, Dialect::Vixie) => format!(
            "five fields are expected (minute, hour, day of month, month, day of week), or six with the second first, got {count}"
        ),
        (count, Dialect::Vixie) => format!("at most six fields are expected, got {count}"),
        (count, Dialect::Quartz) => {
            format!(
                "six fields are expected, of which the first is the second, or seven with the year, got {count}"
            )
        }
    };
    Err(words.wrong_from(if dialect == Dialect::Quartz { 7 } else { 6 }, problem))
}

/// `@daily` and its kin.
fn nickname(words: &Words<'_>, name: &str) -> Result<Cron, CronError> {
    const ALL: [(&str, &str); 7] = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ];
    let lower = name.to_ascii_lowercase();
    let problem = match ALL.iter().find(|(known, _)| *known == lower) {
        Some(_) if words.places.len() > 1 => {
            return Err(words.error(words.places[1].clone(), format!("nothing may follow {name}")));
        }
        Some((_, meaning)) => return parse(meaning, Dialect::Vixie),
        None if lower == "@reboot" => "@reboot is not a time: run the work when the program starts".into(),
        None if lower == "@every" => "@every is not a time of the calendar: use `Periodic`".into(),
        None => format!("{name} is not a name, as these are: {}", ALL.map(|(known, _)| known).join(", ")),
    };
    Err(words.error(words.places[0].clone(), problem))
}

/// Reads the words as fields, from the field with the index `first` on. A seventh word is not read: it is the year `*`.
fn fields(words: &Words<'_>, first: usize) -> Result<Cron, CronError> {
    let mut cron =
        Cron { seconds: 1, minutes: 0, hours: 0, months: 0, days: Days::default(), stars: Stars::default() };
    for (&field, place) in CronField::ALL[first..].iter().zip(&words.places) {
        let text = &words.text[place.clone()];
        cron.stars.set(field, text.starts_with(['*', '?']));
        let mut reader = Reader { words, field, mask: 0, days: &mut cron.days };
        let mut from = place.start;
        for part in text.split(',') {
            reader.part(part, from)?;
            from += part.len() + 1;
        }
        let mask = reader.mask;
        // Bits up to 59, 31, 12 and 7. Those that are cut off are not set.
        #[allow(clippy::cast_possible_truncation)]
        match field {
            CronField::Second => cron.seconds = mask,
            CronField::Minute => cron.minutes = mask,
            CronField::Hour => cron.hours = mask as u32,
            CronField::DayOfMonth => cron.days.numbers = mask as u32,
            CronField::Month => cron.months = mask as u16,
            // 7 is 0.
            CronField::DayOfWeek => cron.days.weekdays = (mask | mask >> 7) as u8 & 0x7f,
        }
    }
    cron.days.in_both = cron.stars.has(CronField::DayOfMonth) || cron.stars.has(CronField::DayOfWeek);
    Ok(cron)
}

/// Reads the parts of a field's list, and adds the numbers or days that each names.
struct Reader<'a> {
    words: &'a Words<'a>,
    field: CronField,
    mask: u64,
    days: &'a mut Days,
}

impl Reader<'_> {
    #[cold]
    fn error<T>(&self, place: Range<usize>, problem: impl Into<String>) -> Result<T, CronError> {
        Err(CronError::new(self.words.dialect, self.words.text, place, Some(self.field), problem))
    }

    fn has_quartz_weekdays(&self) -> bool {
        self.words.dialect == Dialect::Quartz && self.field == CronField::DayOfWeek
    }

    fn part(&mut self, text: &str, from: usize) -> Result<(), CronError> {
        let place = from..from + text.len();
        if text.is_empty() {
            return self.error(place, "a value is missing here");
        }
        let is_done = match self.field {
            CronField::DayOfMonth => self.letter_of_month(text, &place)?,
            CronField::DayOfWeek => self.letter_of_week(text, &place)?,
            _ => false,
        };
        if is_done { Ok(()) } else { self.numbers(text, place) }
    }

    /// `L`, `L-3`, `LW` and `15W`. Returns whether it was one of them.
    fn letter_of_month(&mut self, text: &str, place: &Range<usize>) -> Result<bool, CronError> {
        if text.eq_ignore_ascii_case("LW") {
            self.days.last_weekday = true;
        } else if text.eq_ignore_ascii_case("L") {
            self.days.from_end |= 1;
        } else if let Some(before) = text.strip_prefix("L-").or_else(|| text.strip_prefix("l-")) {
            let Some(number @ 1..=30) = digits(before) else {
                let problem = format!("the days before the last must be 1 to 30, got {before:?}");
                return self.error(place.start + 2..place.end, problem);
            };
            self.days.from_end |= 1 << number;
        } else if let Some(day) = text.strip_suffix(['W', 'w']) {
            self.days.nearest |= 1 << self.number(day, place.start..place.end - 1)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `FRI#2`, `FRI#L`, `FRIL`, and in Quartz `L`. Returns whether it was one of them.
    fn letter_of_week(&mut self, text: &str, place: &Range<usize>) -> Result<bool, CronError> {
        if text.eq_ignore_ascii_case("L") {
            if self.words.dialect == Dialect::Vixie {
                let problem = "L alone is Saturday in Quartz only: write SAT, or FRI#L for the last Friday";
                return self.error(place.clone(), problem);
            }
            self.mask |= 1 << 6;
        } else if let Some((day, number)) = text.split_once('#') {
            let weekday = self.weekday(day, place.start..place.start + day.len())?;
            match number {
                "L" | "l" => self.days.last |= 1 << weekday,
                "1" | "2" | "3" | "4" | "5" => {
                    self.days.nth[usize::from(number.as_bytes()[0] - b'1')] |= 1 << weekday;
                }
                _ => {
                    let name = WEEKDAYS[usize::from(weekday)];
                    let problem = match digits(number) {
                        Some(6) => format!("a month has no sixth {name}"),
                        Some(number) => format!("a month has no {} {name}", ordinal(number)),
                        None => format!(
                            "the number of the {name} must be 1 to 5, or L for the last, got {number:?}"
                        ),
                    };
                    return self.error(place.start + day.len() + 1..place.end, problem);
                }
            }
        } else if let Some(day) = text.strip_suffix(['L', 'l']) {
            self.days.last |= 1 << self.weekday(day, place.start..place.end - 1)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `*`, `?`, a number or a range, each with a step or without.
    fn numbers(&mut self, text: &str, place: Range<usize>) -> Result<(), CronError> {
        let (least, mut most) = self.field.limits();
        if self.has_quartz_weekdays() {
            most = 6;
        }
        let (base, step) = match text.split_once('/') {
            Some((base, step)) => (base, Some((step, place.start + base.len() + 1..place.end))),
            None => (text, None),
        };
        let place = place.start..place.start + base.len();
        let (from, to) = match base {
            "*" => self.field.range(),
            "?" if step.is_some() => return self.error(place, "? takes no step: write *"),
            "?" if matches!(self.field, CronField::DayOfMonth | CronField::DayOfWeek) => self.field.range(),
            "?" => return self.error(place, "? is only for days: write *"),
            _ => match base.split_once('-') {
                Some((from, to)) => self.range(from, to, place)?,
                None => {
                    let from = self.number(base, place)?;
                    (from, if step.is_some() { most } else { from })
                }
            },
        };
        let step = step.map_or(Ok(1), |(step, place)| self.step(step, place, most))?;
        // A range of Quartz may go over the end of its field.
        let size = most - least + 1;
        let to = if to < from { to + size } else { to };
        let mut number = from;
        while number <= to {
            self.mask |= 1 << if number > most { number - size } else { number };
            number += step;
        }
        Ok(())
    }

    fn range(&self, from: &str, to: &str, place: Range<usize>) -> Result<(u32, u32), CronError> {
        let middle = place.start + from.len();
        let first = self.number(from, place.start..middle)?;
        let mut last = self.number(to, middle + 1..place.end)?;
        let may_end_on_sunday = to.eq_ignore_ascii_case("SUN") || self.has_quartz_weekdays();
        if self.field == CronField::DayOfWeek && last == 0 && first > 0 && may_end_on_sunday {
            last = 7;
        }
        if last < first && self.words.dialect == Dialect::Vixie {
            let (least, most) = self.field.range();
            let instead = match (self.field, first, last) {
                (CronField::DayOfWeek, 7, 0) => "0".into(),
                (CronField::DayOfWeek, 7, _) => format!("0-{to}"),
                _ => format!("{from}-{most},{least}-{to}"),
            };
            return self.error(place, format!("{from}-{to} runs backwards: write {instead}"));
        }
        Ok((first, last))
    }

    fn step(&self, step: &str, place: Range<usize>, most: u32) -> Result<u32, CronError> {
        let problem = match digits(step) {
            Some(step) if (1..=most).contains(&step) => return Ok(step),
            Some(0) => "a step must be at least 1, got 0".into(),
            Some(step) => format!(
                "a step of {step} is too long for the {}: use `Periodic` for real time, `Calendar` for days, weeks and months",
                self.field
            ),
            None if step.is_empty() => "a step is missing here".into(),
            None => format!("{step} is not a step"),
        };
        self.error(place, problem)
    }

    /// 0 is Sunday.
    fn weekday(&self, text: &str, place: Range<usize>) -> Result<u8, CronError> {
        // At most 7.
        Ok(u8::try_from(self.number(text, place)? % 7).unwrap_or(0))
    }

    fn number(&self, text: &str, place: Range<usize>) -> Result<u32, CronError> {
        if text.is_empty() {
            return self.error(place, format!("the {} is missing here", self.field));
        }
        let (least, most) = self.field.limits();
        // Quartz counts the days of the week from 1.
        let least = least + u32::from(self.has_quartz_weekdays());
        let (names, first) = self.field.names();
        let number = digits(text);
        let found = match number {
            Some(number) => {
                (least..=most).contains(&number).then(|| number - u32::from(self.has_quartz_weekdays()))
            }
            None => position(names, text).map(|index| first + index),
        };
        found.map_or_else(
            || {
                let is_year = number.is_some_and(|number| number > 1_000);
                let hint = if is_year { format!(": {A_YEAR}") } else { String::new() };
                self.error(place, format!("{text} is not {} {}{hint}", self.field.article(), self.field))
            },
            Ok,
        )
    }
}

fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.bytes().fold(0, |number, byte| number * 10 + u32::from(byte - b'0')))
}
