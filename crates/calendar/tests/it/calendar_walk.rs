//! Calendar rules against a walk through each day, which asks of each whether the words of the rule hold.

use crate::random::{business_days, month_days, weekday};
use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use timingwheel_calendar::{BusinessDays, Calendar, MonthDay, MonthEnd, Rule};

/// With a leap day and ends of years.
const FROM: Date = date(2019, 12, 20);
const TO: Date = date(2025, 3, 10);

fn dates() -> impl Iterator<Item = Date> {
    FROM.series(1.day()).take_while(|&day| day < TO)
}

/// The dates of a rule at midnight in UTC.
fn found(rule: Calendar) -> Vec<Date> {
    let midnight = |day: Date| TimeZone::UTC.to_timestamp(day.at(0, 0, 0, 0)).unwrap();
    let rule = rule.in_zone(TimeZone::UTC);
    let before = midnight(FROM.yesterday().unwrap());
    let instants: Vec<Timestamp> = rule.upcoming(before).take_while(|&at| at < midnight(TO)).collect();
    instants.iter().map(|&at| TimeZone::UTC.to_datetime(at).date()).collect()
}

fn days_between(from: Date, to: Date) -> i32 {
    (to - from).get_days()
}

fn anchors() -> impl Strategy<Value = Date> {
    (0..2_000_i64).prop_map(|days| FROM + days.days())
}

fn weekdays() -> impl Strategy<Value = Vec<Weekday>> {
    vec(weekday(), 1..4)
}

fn business() -> impl Strategy<Value = BusinessDays> {
    business_days(anchors())
}

/// A kind of day of a month, and whether a date is it, told in another way.
type IsIt = Box<dyn Fn(Date, Date, &BusinessDays) -> bool>;

fn of_month(date: Date) -> Vec<Date> {
    date.first_of_month().series(1.day()).take_while(|day| day.month() == date.month()).collect()
}

fn nth(days: &[Date], nth: i8) -> Option<Date> {
    let index = usize::from(nth.unsigned_abs()) - 1;
    if nth > 0 { days.get(index).copied() } else { days.iter().rev().nth(index).copied() }
}

/// The date with this number, by the way for short months.
fn numbered(date: Date, day: i8, end: MonthEnd) -> Option<Date> {
    match date.first_of_month().with().day(day).build() {
        Ok(it) => Some(it),
        Err(_) if end == MonthEnd::Clamp => Some(date.last_of_month()),
        Err(_) => None,
    }
}

fn is_it(day: MonthDay) -> IsIt {
    Box::new(move |date, anchor, business| match day {
        MonthDay::OfAnchor(end) => numbered(date, anchor.day(), end) == Some(date),
        MonthDay::Number(day, end) => numbered(date, i8::try_from(day).unwrap(), end) == Some(date),
        MonthDay::BeforeLast(days) => date + i64::from(days).days() == date.last_of_month(),
        MonthDay::Weekday(weekday, n) => date.nth_weekday_of_month(n, weekday).is_ok_and(|it| it == date),
        MonthDay::BusinessDay(n) => {
            let days: Vec<Date> = of_month(date).into_iter().filter(|&day| business.contains(day)).collect();
            nth(&days, n) == Some(date)
        }
        MonthDay::NearestBusinessDay(day, end) => {
            let Some(aim) = numbered(date, i8::try_from(day).unwrap(), end) else { return false };
            let days = of_month(date).into_iter().filter(|&day| business.contains(day));
            days.min_by_key(|&day| (days_between(aim, day).abs(), day)) == Some(date)
        }
        _ => panic!("a kind of day that this walk does not know"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_n_days_are_those_of_a_walk(
        n in 1..40_u32,
        (anchor, until) in (anchors(), anchors()),
        on in weekdays(),
        business in business(),
    ) {
        let is_nth = |day: &Date| *day >= anchor && days_between(anchor, *day) % i32::try_from(n).unwrap() == 0;
        let mut expected: Vec<Date> = dates().filter(is_nth).collect();
        let rule = Calendar::days(n, anchor);
        prop_assert_eq!(found(rule.clone()), expected.clone());
        let ends: Vec<Date> = expected.iter().copied().filter(|&day| day <= until).collect();
        prop_assert_eq!(found(rule.clone().until(until)), ends);
        let on_business: Vec<Date> = expected.iter().copied().filter(|&day| business.contains(day)).collect();
        prop_assert_eq!(found(rule.clone().on_business_days(business.clone())), on_business);
        expected.retain(|day| on.contains(&day.weekday()));
        prop_assert_eq!(found(rule.clone().on(on.clone())), expected.clone());
        expected.retain(|&day| business.contains(day));
        prop_assert_eq!(found(rule.on(on).on_business_days(business)), expected);
    }

    #[test]
    fn every_n_weeks_are_those_of_a_walk(n in 1..9_u32, anchor in anchors(), on in weekdays()) {
        let monday = |day: Date| day - i64::from(day.weekday().to_monday_zero_offset()).days();
        let is_it = |day: &Date| {
            let weeks = days_between(monday(anchor), monday(*day)) / 7;
            *day >= anchor && weeks % i32::try_from(n).unwrap() == 0 && on.contains(&day.weekday())
        };
        prop_assert_eq!(found(Calendar::weeks(n, anchor).on(on.clone())), dates().filter(is_it).collect::<Vec<_>>());
    }

    #[test]
    fn every_n_months_or_years_are_those_of_a_walk(
        (n, is_years) in prop_oneof![(1..30_u32, Just(false)), (1..4_u32, Just(true))],
        anchor in anchors(),
        first in month_days(),
        second in month_days(),
        business in business(),
    ) {
        let (is_first, is_second) = (is_it(first), is_it(second));
        let months = |day: Date| i32::from(day.year()) * 12 + i32::from(day.month());
        let every = i32::try_from(if is_years { 12 * n } else { n }).unwrap();
        let is_it = |day: &Date| {
            *day >= anchor
                && (months(*day) - months(anchor)) % every == 0
                && (is_first(*day, anchor, &business) || is_second(*day, anchor, &business))
        };
        let rule = if is_years { Calendar::years } else { Calendar::months };
        let rule = rule(n, anchor, first).and_on(second).with_business_days(business.clone());
        prop_assert_eq!(found(rule), dates().filter(is_it).collect::<Vec<_>>());
    }
}
