//! A second implementation, written apart from the crate: slow, and as simple as can be.
//!
//! It walks through real time, step by step, and looks at the wall clock. It knows no gap, no overlap and no
//! change: only the latest time that the clock has shown so far. A fixed time runs when the clock first shows it, or
//! something later. An interval runs whenever the clock shows it.

use std::collections::HashMap;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// Each step up to `to`, and what the wall clock shows then. It begins two days before `from`, so that a clock that is set
/// back is seen.
pub(crate) fn walls(
    zone: &TimeZone,
    step: SignedDuration,
    from: Timestamp,
    to: Timestamp,
) -> Vec<(Timestamp, DateTime)> {
    let first = from - SignedDuration::from_hours(48);
    let steps = (to.duration_since(first).as_nanos() + step.as_nanos() - 1) / step.as_nanos();
    let instant = |number| first + step * i32::try_from(number).unwrap();
    (0..=steps).map(instant).map(|now| (now, zone.to_datetime(now))).collect()
}

/// An expression as sets of numbers, read by an own, forgiving reader.
pub(crate) struct Reference {
    seconds: Vec<bool>,
    minutes: Vec<bool>,
    hours: Vec<bool>,
    months: Vec<bool>,
    days: String,
    weekdays: String,
    pub is_interval: bool,
    /// Six fields: it walks by seconds, and by minutes otherwise.
    has_seconds: bool,
    known_days: HashMap<Date, bool>,
}

const MONTHS: &str = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
const WEEKDAYS: &str = "SUNMONTUEWEDTHUFRISAT";

fn number(text: &str) -> usize {
    if let Ok(number) = text.parse() {
        number
    } else if let Some(at) = MONTHS.find(text) {
        at / 3 + 1
    } else {
        WEEKDAYS.find(text).unwrap_or_else(|| panic!("no number: {text}")) / 3
    }
}

/// Which of the numbers up to `most` a field names.
fn set(field: &str, least: usize, most: usize) -> Vec<bool> {
    let mut set = vec![false; most + 1];
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, ""));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, most),
            Some((from, to)) => (number(from), number(to)),
            None if step.is_empty() => (number(range), number(range)),
            None => (number(range), most),
        };
        for number in (from..=to).step_by(step.parse().unwrap_or(1)) {
            set[number] = true;
        }
    }
    set
}

impl Reference {
    pub(crate) fn new(expression: &str) -> Self {
        let upper = expression.to_uppercase();
        let fields: Vec<&str> = upper.split_whitespace().collect();
        let (second, rest) = if fields.len() == 6 { (fields[0], &fields[1..]) } else { ("0", &fields[..]) };
        Self {
            seconds: set(second, 0, 59),
            minutes: set(rest[0], 0, 59),
            hours: set(rest[1], 0, 23),
            days: rest[2].into(),
            months: set(rest[3], 1, 12),
            weekdays: rest[4].into(),
            is_interval: rest[0].starts_with('*') || rest[1].starts_with('*'),
            has_seconds: fields.len() == 6,
            known_days: HashMap::new(),
        }
    }

    fn step(&self) -> SignedDuration {
        if self.has_seconds { SignedDuration::from_secs(1) } else { SignedDuration::from_mins(1) }
    }

    fn has_day_of_month(&self, date: Date) -> bool {
        let is_weekday = |date: Date| !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
        let of_month = |day: i8| date.first_of_month().with().day(day).build().ok();
        // Nearest by looking one and two days to each side.
        let nearest = |day: Date| {
            [0, -1, 1, -2, 2]
                .into_iter()
                .map(|days: i64| day + days.days())
                .find(|&near| near.month() == day.month() && is_weekday(near))
        };
        self.days.split(',').any(|part| {
            let last = date.last_of_month();
            match part {
                "L" => date == last,
                "LW" => Some(date) == nearest(last),
                _ if part.starts_with("L-") => {
                    date + i64::from(part[2..].parse::<i8>().unwrap()).days() == last
                }
                _ if part.ends_with('W') => of_month(part[..part.len() - 1].parse().unwrap())
                    .is_some_and(|day| nearest(day) == Some(date)),
                _ => set(part, 1, 31)[usize::try_from(date.day()).unwrap()],
            }
        })
    }

    fn has_day_of_week(&self, date: Date) -> bool {
        let weekday = usize::try_from(date.weekday().to_sunday_zero_offset()).unwrap();
        let is_last = date.day() + 7 > date.days_in_month();
        self.weekdays.split(',').any(|part| match part.split_once('#') {
            Some((day, "L")) => number(day) % 7 == weekday && is_last,
            Some((day, nth)) => {
                number(day) % 7 == weekday && (date.day() - 1) / 7 + 1 == nth.parse::<i8>().unwrap()
            }
            None if part.len() > 1 && part.ends_with('L') => {
                number(&part[..part.len() - 1]) % 7 == weekday && is_last
            }
            None => {
                // `5-7` ends on a Sunday, and all of `*` are seven.
                let set = set(part, 0, if part.contains(['*', '?']) { 6 } else { 7 });
                set[weekday] || weekday == 0 && set.get(7) == Some(&true)
            }
        })
    }

    fn has_date(&mut self, date: Date) -> bool {
        if let Some(&known) = self.known_days.get(&date) {
            return known;
        }
        let (of_month, of_week) = (self.has_day_of_month(date), self.has_day_of_week(date));
        let is_and = self.days.starts_with(['*', '?']) || self.weekdays.starts_with(['*', '?']);
        let days = if is_and { of_month && of_week } else { of_month || of_week };
        let has = days && self.months[usize::try_from(date.month()).unwrap()];
        self.known_days.insert(date, has);
        has
    }

    pub(crate) fn has(&mut self, wall: DateTime) -> bool {
        let is_in = |set: &[bool], number: i8| set[usize::try_from(number).unwrap()];
        is_in(&self.seconds, wall.second())
            && is_in(&self.minutes, wall.minute())
            && is_in(&self.hours, wall.hour())
            && self.has_date(wall.date())
    }

    /// All instants after `from` up to `to`, which have no fractions of a step.
    pub(crate) fn walk(&mut self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        self.walk_on(&walls(zone, self.step(), from, to), from)
    }

    /// All instants after `from` among these, which [`walls`] has listed.
    pub(crate) fn walk_on(&mut self, walls: &[(Timestamp, DateTime)], from: Timestamp) -> Vec<Timestamp> {
        let mut latest = walls[0].1;
        let mut found = Vec::new();
        for &(now, wall) in &walls[1..] {
            let runs = if self.is_interval { self.has(wall) } else { self.has_between(latest, wall) };
            latest = latest.max(wall);
            if runs && now > from {
                found.push(now);
            }
        }
        found
    }

    fn has_between(&mut self, latest: DateTime, wall: DateTime) -> bool {
        let step = self.step();
        // One step on, as nearly always: this arithmetic costs a tenth of the one below.
        let seconds = |at: DateTime| {
            i64::from(at.hour()) * 3_600 + i64::from(at.minute()) * 60 + i64::from(at.second())
        };
        if latest.date() == wall.date() && seconds(wall) - seconds(latest) == step.as_secs() {
            return self.has(wall);
        }
        let mut passed = wall;
        while passed > latest {
            if self.has(passed) {
                return true;
            }
            passed -= step;
        }
        false
    }
}
