//! One part of a field's list: a number, a range, a step, or one of the letters for days.

use std::ops::Range;

use super::error::CronError;
use super::field::{CronField, Dialect};
use super::next_on_the_wall::Days;
use super::parse::Words;
use super::words::high;

/// A part of a list.
#[derive(Clone, Copy)]
pub(super) enum Item {
    /// Every `step`th number of a range.
    Numbers { from: u32, to: u32, step: u32 },
    /// Every `step`th number of a range that goes over the end of the field, which begins again at `least`.
    Round { from: u32, to: u32, step: u32, least: u32, most: u32 },
    /// `L`, `L-3`.
    FromEnd(u32),
    /// `LW`.
    LastWeekday,
    /// `15W`.
    Nearest(u32),
    /// `FRI#2`, counted from 1.
    Nth(u32, usize),
    /// `FRIL`, `FRI#L`.
    Last(u32),
}

impl Item {
    #[inline]
    pub(super) fn add_to(self, mask: &mut u64, days: &mut Days) {
        match self {
            Self::Numbers { from, to, step: 1 } => *mask |= (u64::MAX >> (63 - to)) & (u64::MAX << from),
            Self::Numbers { from, to, step } => {
                let mut number = from;
                while number <= to {
                    *mask |= 1 << number;
                    number += step;
                }
            }
            Self::Round { from, to, step, least, most } => {
                let size = most - least + 1;
                let mut number = from;
                while number <= to + size {
                    *mask |= 1 << (least + (number - least) % size);
                    number += step;
                }
            }
            Self::FromEnd(before) => days.from_end |= 1 << before,
            Self::LastWeekday => days.last_weekday = true,
            Self::Nearest(day) => days.nearest |= 1 << day,
            Self::Nth(weekday, number) => days.nth[number - 1] |= 1 << weekday,
            Self::Last(weekday) => days.last |= 1 << weekday,
        }
    }

    pub(super) fn parse(words: &Words<'_>, field: CronField, place: Range<usize>) -> Result<Self, CronError> {
        let part = Part { words, field };
        let text = &words.text[place.clone()];
        if text.is_empty() {
            return Err(part.error(place, "something is missing here"));
        }
        match field {
            CronField::DayOfMonth => {
                if let Some(item) = part.letter_of_month(text, &place)? {
                    return Ok(item);
                }
            }
            CronField::DayOfWeek => {
                if let Some(item) = part.letter_of_week(text, &place)? {
                    return Ok(item);
                }
            }
            _ => {}
        }
        part.numbers(text, place)
    }
}

/// What a part is read in.
struct Part<'a> {
    words: &'a Words<'a>,
    field: CronField,
}

impl Part<'_> {
    #[cold]
    fn error(&self, place: Range<usize>, problem: impl Into<String>) -> CronError {
        self.words.error(place, Some(self.field), problem)
    }

    fn letter_of_month(&self, text: &str, place: &Range<usize>) -> Result<Option<Item>, CronError> {
        if text.eq_ignore_ascii_case("LW") {
            return Ok(Some(Item::LastWeekday));
        }
        if text.eq_ignore_ascii_case("L") {
            return Ok(Some(Item::FromEnd(0)));
        }
        let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
        if let (true, Some(before)) = (first.eq_ignore_ascii_case("L"), rest.strip_prefix('-')) {
            let place = place.start + 2..place.end;
            return match self.digits(before) {
                Some(before @ 1..=30) => Ok(Some(Item::FromEnd(before))),
                _ => {
                    Err(self
                        .error(place, format!("{before} is no number of days before the last: 1 to 30 are")))
                }
            };
        }
        if let Some(day) = text.strip_suffix(['W', 'w']) {
            return Ok(Some(Item::Nearest(self.number(day, place.start..place.end - 1)?)));
        }
        Ok(None)
    }

    fn letter_of_week(&self, text: &str, place: &Range<usize>) -> Result<Option<Item>, CronError> {
        if text.eq_ignore_ascii_case("L") {
            return match self.words.dialect {
                Dialect::Quartz => Ok(Some(Item::Numbers { from: 6, to: 6, step: 1 })),
                Dialect::Vixie => Err(self.error(
                    place.clone(),
                    "L alone is Saturday in Quartz, and the last day in the other field: write SAT, or FRI#L for the last Friday",
                )),
            };
        }
        if let Some((day, number)) = text.split_once('#') {
            let weekday = self.weekday(day, place.start..place.start + day.len())?;
            return match number {
                "L" | "l" => Ok(Some(Item::Last(weekday))),
                "1" | "2" | "3" | "4" | "5" => {
                    Ok(Some(Item::Nth(weekday, usize::from(number.as_bytes()[0] - b'0'))))
                }
                _ => Err(self.error(
                    place.start + day.len() + 1..place.end,
                    format!(
                        "a month has no {day} of the number {number:?}: 1 to 5 are taken, and L for the last"
                    ),
                )),
            };
        }
        if let Some(day) = text.strip_suffix(['L', 'l']) {
            return Ok(Some(Item::Last(self.weekday(day, place.start..place.end - 1)?)));
        }
        Ok(None)
    }

    fn numbers(&self, text: &str, place: Range<usize>) -> Result<Item, CronError> {
        let (least, mut most) = self.field.limits();
        if self.words.dialect == Dialect::Quartz && self.field == CronField::DayOfWeek {
            most = 6;
        }
        let (base, step) = match text.split_once('/') {
            Some((base, step)) => (base, Some((step, place.start + base.len() + 1..place.end))),
            None => (text, None),
        };
        let place = place.start..place.start + base.len();
        let (from, to) = match base {
            // As often, Sunday is 0 here.
            "*" if self.field == CronField::DayOfWeek => (least, 6),
            "*" => (least, most),
            "?" if step.is_some() => return Err(self.error(place, "? takes no step: write *")),
            "?" if self.is_of_days() => {
                (least, most.min(if self.field == CronField::DayOfWeek { 6 } else { most }))
            }
            "?" => return Err(self.error(place, "? is for days only: write *")),
            _ => match base.split_once('-') {
                Some((from, to)) => self.range(from, to, place)?,
                None => {
                    let from = self.number(base, place)?;
                    (from, if step.is_some() { most } else { from })
                }
            },
        };
        let step = match step {
            None => 1,
            Some((step, place)) => self.step(step, place, most)?,
        };
        if to < from {
            return Ok(Item::Round { from, to, step, least, most });
        }
        Ok(Item::Numbers { from, to, step })
    }

    fn range(&self, from: &str, to: &str, place: Range<usize>) -> Result<(u32, u32), CronError> {
        let middle = place.start + from.len();
        let first = self.number(from, place.start..middle)?;
        let mut last = self.number(to, middle + 1..place.end)?;
        let ends_on_sunday = self.field == CronField::DayOfWeek
            && last == 0
            && first > 0
            && (to.eq_ignore_ascii_case("SUN") || self.words.dialect == Dialect::Quartz);
        if ends_on_sunday {
            last = 7;
        }
        if last < first && self.words.dialect == Dialect::Vixie {
            let (least, most) = (self.field.limits().0, high(self.field));
            let instead = match (self.field, first, last) {
                (CronField::DayOfWeek, 7, 0) => "0".into(),
                (CronField::DayOfWeek, 7, _) => format!("0-{to}"),
                _ => format!("{from}-{most},{least}-{to}"),
            };
            return Err(self.error(place, format!("{from}-{to} runs backwards: write {instead}")));
        }
        Ok((first, last))
    }

    fn step(&self, step: &str, place: Range<usize>, most: u32) -> Result<u32, CronError> {
        match self.digits(step) {
            Some(0) => Err(self.error(place, "a step of 0 leads nowhere")),
            Some(step) if step <= most => Ok(step),
            Some(step) => Err(self.error(
                place,
                format!("a step of {step} is beyond {most}: every {step} units are no cron, use `Periodic` or `Calendar`"),
            )),
            None if step.is_empty() => Err(self.error(place, "a step is missing here")),
            None => Err(self.error(place, format!("{step} is no step"))),
        }
    }

    const fn is_of_days(&self) -> bool {
        matches!(self.field, CronField::DayOfMonth | CronField::DayOfWeek)
    }

    /// 0 is Sunday.
    fn weekday(&self, text: &str, place: Range<usize>) -> Result<u32, CronError> {
        Ok(self.number(text, place)? % 7)
    }

    fn number(&self, text: &str, place: Range<usize>) -> Result<u32, CronError> {
        if text.is_empty() {
            return Err(self.error(place, format!("the {} is missing here", self.field)));
        }
        let (mut least, most) = self.field.limits();
        if let Some(mut number) = self.digits(text) {
            let is_quartz = self.words.dialect == Dialect::Quartz && self.field == CronField::DayOfWeek;
            least += u32::from(is_quartz);
            if (least..=most).contains(&number) {
                number -= u32::from(is_quartz);
                return Ok(number);
            }
        } else if text.len() == 3 {
            let (names, first) = self.field.names();
            if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
                // At most 12.
                return Ok(first + u32::try_from(index).unwrap_or(0));
            }
        }
        Err(self.error(place, format!("{text} is no {}", self.field)))
    }

    fn digits(&self, text: &str) -> Option<u32> {
        let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.bytes().fold(0, |number, byte| number * 10 + u32::from(byte - b'0')))
    }
}
