//! A calendar rule as a text, `every 2 weeks from 2026-01-05 on MON,FRI at 09:00 until 2026-12-31`, and as a sentence.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};

use super::business_days::is_in_some_year;
use super::{BusinessDays, Calendar, Every, Filter, MOST_YEARS, MonthDay, MonthEnd};
use crate::cron::{WEEKDAYS, clock, clock_times, list, ordinal, position};
use crate::text::{Words, number};

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { every, anchor, seconds_of_day, until, business_days } = self;
        match every {
            Every::Days(n, filter) => {
                write!(f, "every {n} days from {anchor}")?;
                let mut on = Vec::new();
                if filter.business_days {
                    on.push("business".to_owned());
                }
                if filter.has_weekdays() {
                    on.push(weekday_list(filter.weekdays));
                }
                if !on.is_empty() {
                    write!(f, " on {}", on.join(","))?;
                }
            }
            Every::Weeks(n, mask) => write!(f, "every {n} weeks from {anchor} on {}", weekday_list(*mask))?,
            Every::Months(n, days) => {
                let is_years = n % 12 == 0 && n / 12 <= MOST_YEARS;
                let (n, unit) = if is_years { (n / 12, "years") } else { (*n, "months") };
                let days: Vec<String> = days.iter().map(|day| month_day(*day)).collect();
                write!(f, "every {n} {unit} from {anchor} on {}", days.join(","))?;
            }
        }
        let times: Vec<String> = seconds_of_day.iter().map(|&second| clock(second)).collect();
        write!(f, " at {}", times.join(","))?;
        if let Some(until) = until {
            write!(f, " until {until}")?;
        }
        let BusinessDays { weekend, yearly, dates } = business_days;
        if *weekend != BusinessDays::monday_to_friday().weekend {
            let weekend = if *weekend == 0 { "none".into() } else { weekday_list(*weekend) };
            write!(f, " weekend {weekend}")?;
        }
        if !yearly.is_empty() || !dates.is_empty() {
            let yearly = yearly.iter().map(|(month, day)| format!("{month:02}-{day:02}"));
            let holidays: Vec<String> = yearly.chain(dates.iter().map(Date::to_string)).collect();
            write!(f, " holidays {}", holidays.join(","))?;
        }
        Ok(())
    }
}

pub(super) fn weekdays_of(mask: u8) -> impl Iterator<Item = Weekday> {
    // From Monday to Sunday.
    let weekdays = (1..=7).filter_map(|offset| Weekday::from_monday_one_offset(offset).ok());
    weekdays.filter(move |weekday| mask & super::bit(*weekday) != 0)
}

/// `MON`.
fn weekday_name(weekday: Weekday) -> String {
    name(weekday)[..3].to_ascii_uppercase()
}

fn weekday_list(mask: u8) -> String {
    weekdays_of(mask).map(weekday_name).collect::<Vec<_>>().join(",")
}

fn month_day(day: MonthDay) -> String {
    let end = |end| if end == MonthEnd::Clamp { "clamp" } else { "leave-out" };
    match day {
        MonthDay::OfAnchor(at_end) => end(at_end).into(),
        MonthDay::Number(day, at_end) => format!("day#{day}/{}", end(at_end)),
        MonthDay::BeforeLast(days) => format!("L-{days}"),
        MonthDay::Weekday(weekday, nth) => format!("{}#{nth}", weekday_name(weekday)),
        MonthDay::BusinessDay(nth) => format!("business#{nth}"),
        MonthDay::NearestBusinessDay(day, at_end) => format!("near#{day}/{}", end(at_end)),
    }
}

impl Calendar {
    /// The meaning in a few words of English, for people. The words may change.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::civil::{Weekday, date, time};
    /// use timingwheel_calendar::{Calendar, MonthDay};
    ///
    /// let payroll = Calendar::months(1, date(2026, 1, 1), MonthDay::BusinessDay(-1)).at(time(18, 0, 0, 0));
    /// assert_eq!(payroll.describe(), "at 18:00 on the last business day of every month, from 2026-01-01");
    /// let meeting = Calendar::weeks(2, date(2026, 1, 5)).at(time(9, 30, 0, 0));
    /// assert_eq!(meeting.describe(), "at 09:30 on Monday of every 2nd week, from 2026-01-05");
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let times = clock_times(self.seconds_of_day.iter().copied());
        if self.until == Some(self.anchor) && self.every == Every::Days(1, Filter::ALL) {
            return format!("once, at {times} on {}", self.anchor);
        }
        let until = self.until.map(|last| format!(" until {last}")).unwrap_or_default();
        format!("at {times} {}, from {}{until}", self.which_days(), self.anchor)
    }

    fn which_days(&self) -> String {
        match &self.every {
            Every::Days(1, Filter { business_days: true, weekdays: 0x7f }) => "every business day".into(),
            Every::Days(n, filter) => {
                let weekdays = list(&weekdays_of(filter.weekdays).map(name).collect::<Vec<_>>(), "or");
                let days = every(*n, "day");
                match (filter.business_days, filter.has_weekdays()) {
                    (false, false) => days,
                    (false, true) => format!("{days} if it is {weekdays}"),
                    (true, false) => format!("{days} if it is a business day"),
                    (true, true) => format!("{days} if it is a business day and {weekdays}"),
                }
            }
            Every::Weeks(n, mask) => {
                let weekdays = weekdays_of(*mask).map(name);
                format!("on {} of {}", list(&weekdays.collect::<Vec<_>>(), "and"), every(*n, "week"))
            }
            Every::Months(n, days) => {
                let days: Vec<String> = days.iter().map(|day| self.month_day(*day)).collect();
                let months = if n % 12 == 0 {
                    format!("{} of {}", self.anchor.strftime("%B"), every(n / 12, "year"))
                } else {
                    every(*n, "month")
                };
                format!("on {} of {months}", list(&days, "and"))
            }
        }
    }

    fn month_day(&self, day: MonthDay) -> String {
        let from_end = |nth: i8, what: &str| match nth {
            -1 => format!("the last {what}"),
            ..-1 => format!("the {} last {what}", ordinal(nth.unsigned_abs().into())),
            _ => format!("the {} {what}", ordinal(nth.unsigned_abs().into())),
        };
        let number = |day: u32, end| match end {
            _ if day <= 28 => format!("the {}", ordinal(day)),
            MonthEnd::Clamp => format!("the {} or the last day", ordinal(day)),
            MonthEnd::LeaveOut => format!("the {}, where there is one,", ordinal(day)),
        };
        match day {
            // From 1 to 31.
            MonthDay::OfAnchor(end) => number(self.anchor.day().unsigned_abs().into(), end),
            MonthDay::Number(day, end) => number(day.into(), end),
            MonthDay::BeforeLast(0) => "the last day".into(),
            MonthDay::BeforeLast(days) => format!("the {} day before the last", ordinal(days.into())),
            MonthDay::Weekday(weekday, nth) => from_end(nth, &name(weekday)),
            MonthDay::BusinessDay(nth) => from_end(nth, "business day"),
            MonthDay::NearestBusinessDay(day, end) => {
                format!("the business day nearest to {}", number(day.into(), end))
            }
        }
    }
}

fn every(n: u32, unit: &str) -> String {
    if n == 1 { format!("every {unit}") } else { format!("every {} {unit}", ordinal(n)) }
}

fn name(weekday: Weekday) -> String {
    format!("{weekday:?}")
}

const A_DATE: &str = "a date, as 2026-01-05,";

/// Reads the rest of a rule in pairs of words, such as `from DATE`. After an error, the last word read is the wrong
/// one. The caller has checked `n`: it is at least 1, and for years at most [`MOST_YEARS`].
pub(crate) fn parse(n: u32, unit: &str, words: &mut Words<'_>) -> Result<Calendar, String> {
    words.must("from")?;
    let anchor = parse_date(words.next(A_DATE)?)?;
    let on = if words.take("on") { Some(words.next("which day, as MON or L-0,")?) } else { None };
    let mut rule = match (unit, on) {
        ("days", None) => Calendar::days(n, anchor),
        ("days", Some(on)) => {
            let rule = Calendar::days(n, anchor);
            match on.strip_prefix("business") {
                None => rule.on(parse_weekdays(on)?),
                Some("") => rule.on_business_days(BusinessDays::default()),
                Some(on) => {
                    let on = on.strip_prefix(',').unwrap_or(on);
                    rule.on_business_days(BusinessDays::default()).on(parse_weekdays(on)?)
                }
            }
        }
        ("weeks", None) => Calendar::weeks(n, anchor),
        ("weeks", Some(on)) => Calendar::weeks(n, anchor).on(parse_weekdays(on)?),
        (_, None) => return Err(format!("every {n} {unit}: on which day, as `on clamp` or `on FRI#-1`?")),
        (_, Some(on)) => {
            let mut days = on.split(',').map(parse_month_day);
            let first = days.next().unwrap_or_else(|| Err("on which day?".into()))?;
            let rule = if unit == "years" {
                Calendar::years(n, anchor, first)
            } else {
                Calendar::months(n, anchor, first)
            };
            days.try_fold(rule, |rule, day| Ok::<_, String>(rule.and_on(day?)))?
        }
    };
    if words.take("at") {
        let times = words.next("a time of the day, as 09:00,")?.split(',').map(parse_time);
        rule = rule.at_each(times.collect::<Result<Vec<_>, _>>()?);
    }
    if words.take("until") {
        rule = rule.until(parse_date(words.next(A_DATE)?)?);
    }
    if words.take("weekend") {
        rule.business_days.weekend = match words.next("none, or weekdays, as SAT,SUN,")? {
            "none" => 0,
            weekend => super::mask(parse_weekdays(weekend)?),
        };
    }
    if words.take("holidays") {
        for holiday in words.next("a holiday, as 12-25,")?.split(',') {
            add_holiday(&mut rule.business_days, holiday)?;
        }
    }
    Ok(rule)
}

fn add_holiday(days: &mut BusinessDays, text: &str) -> Result<(), String> {
    let wrong = || {
        format!("{text} is not a holiday: a date, as 2026-04-03, or a month and a day, as 12-25, is expected")
    };
    if let Ok(date) = parse_date(text) {
        days.dates.insert(date);
        return Ok(());
    }
    let (month, day) = text.split_once('-').ok_or_else(wrong)?;
    let part = |text: &str| number::<i8>(text).filter(|&number| number > 0).ok_or_else(wrong);
    let (month, day) = (part(month)?, part(day)?);
    if !is_in_some_year(month, day) {
        return Err(wrong());
    }
    days.yearly.insert((month, day));
    Ok(())
}

/// A value and nothing else: jiff also takes a date with a time, or with a zone, and drops the rest.
fn parse_only<T: FromStr<Err = jiff::Error>>(text: &str, signs: &str, what: &str) -> Result<T, String> {
    let value = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let has_more = text.contains(|c: char| !c.is_ascii_digit() && !signs.contains(c));
    if has_more { Err(format!("{text} is more than {what}")) } else { Ok(value) }
}

fn parse_date(text: &str) -> Result<Date, String> {
    let what = "a date, as 2026-01-05: a time of the day is written `at 09:00`, a zone `in Europe/Berlin`";
    parse_only(text, "+-", what)
}

fn parse_time(text: &str) -> Result<Time, String> {
    parse_only(text, ":.", "a time of the day, as 09:00")
}

fn parse_weekdays(text: &str) -> Result<Vec<Weekday>, String> {
    text.split(',').map(parse_weekday).collect()
}

fn parse_weekday(text: &str) -> Result<Weekday, String> {
    let offset = position(&WEEKDAYS, text).and_then(|index| i8::try_from(index).ok());
    let weekday = offset.and_then(|offset| Weekday::from_sunday_zero_offset(offset).ok());
    weekday.ok_or_else(|| format!("{text} is not a weekday, as MON to SUN are"))
}

fn parse_month_day(text: &str) -> Result<MonthDay, String> {
    let wrong = || {
        format!(
            "{text} is not a day of a month, as these are: clamp, leave-out, day#31/clamp, L-0, FRI#-1, business#-1, near#15/clamp"
        )
    };
    let end = |text: &str| match text {
        "clamp" => Ok(MonthEnd::Clamp),
        "leave-out" => Ok(MonthEnd::LeaveOut),
        _ => Err(wrong()),
    };
    if let Some(days) = text.strip_prefix("L-") {
        return valid(MonthDay::BeforeLast(number(days).ok_or_else(wrong)?));
    }
    let Some((kind, nth)) = text.split_once('#') else { return end(text).map(MonthDay::OfAnchor) };
    let day = match (kind, nth.split_once('/')) {
        ("day", Some((day, at_end))) => MonthDay::Number(number(day).ok_or_else(wrong)?, end(at_end)?),
        ("near", Some((day, at_end))) => {
            MonthDay::NearestBusinessDay(number(day).ok_or_else(wrong)?, end(at_end)?)
        }
        ("business", None) => MonthDay::BusinessDay(number(nth).ok_or_else(wrong)?),
        (_, None) => {
            MonthDay::Weekday(parse_weekday(kind).map_err(|_| wrong())?, number(nth).ok_or_else(wrong)?)
        }
        _ => return Err(wrong()),
    };
    valid(day)
}

fn valid(day: MonthDay) -> Result<MonthDay, String> {
    day.problem().map_or(Ok(day), Err)
}
