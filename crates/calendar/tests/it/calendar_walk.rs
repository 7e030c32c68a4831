//! Calendar rules against a walk through each day, which asks of each whether the words of the rule hold.

use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use timingwheel_calendar::{BusinessDays, Calendar, MonthDay, MonthEnd, Rule};

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
    vec((1..=7_i8).prop_map(|offset| Weekday::from_monday_one_offset(offset).unwrap()), 1..4)
}

fn business() -> impl Strategy<Value = BusinessDays> {
    (weekdays(), vec(anchors(), 0..20), vec((1..=12_i8, 1..=28_i8), 0..5)).prop_map(
        |(weekend, dates, yearly)| {
            let days = BusinessDays::without(weekend.into_iter().take(2)).with_holidays(dates);
            yearly.into_iter().fold(days, |days, (month, day)| days.with_yearly_holiday(month, day))
        },
    )
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

fn month_days() -> impl Strategy<Value = MonthDay> {
    let ends = || select(&[MonthEnd::Clamp, MonthEnd::LeaveOut][..]);
    let signed = |most: i8| (1..=most, any::<bool>()).prop_map(|(n, back)| if back { -n } else { n });
    prop_oneof![
        ends().prop_map(MonthDay::OfAnchor),
        (1..=31_u8, ends()).prop_map(|(day, end)| MonthDay::Number(day, end)),
        (0..=30_u8).prop_map(MonthDay::BeforeLast),
        (1..=7_i8, signed(5))
            .prop_map(|(day, n)| MonthDay::Weekday(Weekday::from_monday_one_offset(day).unwrap(), n)),
        signed(23).prop_map(MonthDay::BusinessDay),
        (1..=31_u8, ends()).prop_map(|(day, end)| MonthDay::NearestBusinessDay(day, end)),
    ]
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
    fn every_n_days_are_those_of_a_walk(n in 1..40_u32, anchor in anchors(), on in weekdays(), business in business()) {
        let is_nth = |day: &Date| *day >= anchor && days_between(anchor, *day) % i32::try_from(n).unwrap() == 0;
        let expected: Vec<Date> = dates().filter(is_nth).collect();
        prop_assert_eq!(found(Calendar::days(n, anchor)), expected.clone());
        let on_weekdays: Vec<Date> = expected.iter().copied().filter(|day| on.contains(&day.weekday())).collect();
        prop_assert_eq!(found(Calendar::days(n, anchor).on(on)), on_weekdays);
        let on_business: Vec<Date> = expected.into_iter().filter(|&day| business.contains(day)).collect();
        prop_assert_eq!(found(Calendar::days(n, anchor).on_business_days(business)), on_business);
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
    fn every_n_months_are_those_of_a_walk(
        n in 1..30_u32,
        anchor in anchors(),
        first in month_days(),
        second in month_days(),
        business in business(),
    ) {
        let (is_first, is_second) = (is_it(first), is_it(second));
        let months = |day: Date| i32::from(day.year()) * 12 + i32::from(day.month());
        let is_it = |day: &Date| {
            *day >= anchor
                && (months(*day) - months(anchor)) % i32::try_from(n).unwrap() == 0
                && (is_first(*day, anchor, &business) || is_second(*day, anchor, &business))
        };
        let rule = Calendar::months(n, anchor, first).and_on(second).with_business_days(business.clone());
        prop_assert_eq!(found(rule), dates().filter(is_it).collect::<Vec<_>>());
    }
}

#[test]
fn the_walk_covers_leap_days_and_ends_of_years() {
    let covered: Vec<Date> = dates().collect();
    assert!(covered.contains(&date(2024, 2, 29)) && covered.contains(&date(2020, 12, 31)));
    assert_eq!(TO.since((Unit::Year, FROM)).unwrap().get_years(), 5);
}
