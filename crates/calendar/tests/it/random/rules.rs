//! Random calendar rules, plans and policies.

use jiff::Timestamp;
use jiff::civil::{Date, Time, Weekday, date};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use timingwheel_calendar::{
    BusinessDays, Calendar, Combine, Cron, Gap, MonthDay, MonthEnd, Once, Overlap, Periodic, Plan,
};

use super::{expressions, starts, zone, zones};

pub(crate) fn gaps() -> impl Strategy<Value = Option<Gap>> {
    select(&[None, Some(Gap::AfterGap), Some(Gap::Skip)][..])
}

pub(crate) fn overlaps() -> impl Strategy<Value = Option<Overlap>> {
    select(&[None, Some(Overlap::First), Some(Overlap::Second), Some(Overlap::Both)][..])
}

fn dates() -> impl Strategy<Value = Date> {
    (1_990..2_040_i16, 1..=12_i8, 1..=31_i8).prop_map(|(year, month, day)| {
        let first = date(year, month, 1);
        first.with().day(day.min(first.days_in_month())).build().unwrap()
    })
}

fn times() -> impl Strategy<Value = Vec<Time>> {
    vec((0..24_i8, 0..60_i8, select(&[0, 0, 0, 30_i8][..])), 1..3)
        .prop_map(|times| times.into_iter().map(|(h, m, s)| Time::constant(h, m, s, 0)).collect())
}

pub(crate) fn weekday() -> impl Strategy<Value = Weekday> {
    (1..=7_i8).prop_map(|offset| Weekday::from_monday_one_offset(offset).unwrap())
}

/// With holidays among `dates`.
pub(crate) fn business_days(dates: impl Strategy<Value = Date>) -> impl Strategy<Value = BusinessDays> {
    (vec(weekday(), 0..3), vec(dates, 0..20), vec((1..=12_i8, 1..=28_i8), 0..5)).prop_map(
        |(weekend, dates, yearly)| {
            let days = BusinessDays::without(weekend).with_holidays(dates);
            yearly.into_iter().fold(days, |days, (month, day)| days.with_yearly_holiday(month, day))
        },
    )
}

pub(crate) fn month_days() -> impl Strategy<Value = MonthDay> {
    let end = || select(&[MonthEnd::Clamp, MonthEnd::LeaveOut][..]);
    let nth =
        |most: i8| (1..=most, any::<bool>()).prop_map(|(nth, is_last)| if is_last { -nth } else { nth });
    prop_oneof![
        end().prop_map(MonthDay::OfAnchor),
        (1..=31_u8, end()).prop_map(|(day, end)| MonthDay::Number(day, end)),
        (0..=30_u8).prop_map(MonthDay::BeforeLast),
        (weekday(), nth(5)).prop_map(|(weekday, nth)| MonthDay::Weekday(weekday, nth)),
        nth(23).prop_map(MonthDay::BusinessDay),
        (1..=31_u8, end()).prop_map(|(day, end)| MonthDay::NearestBusinessDay(day, end)),
    ]
}

pub(crate) fn calendars() -> impl Strategy<Value = Calendar> {
    let n = || prop_oneof![1..4_u32, 1..40_u32];
    let by_days = (n(), dates()).prop_map(|(n, anchor)| Calendar::days(n, anchor));
    let on_weekdays = (n(), dates(), vec(weekday(), 1..4))
        .prop_map(|(n, anchor, weekdays)| Calendar::days(n, anchor).on(weekdays));
    let on_business_days = (n(), dates(), business_days(dates()))
        .prop_map(|(n, anchor, days)| Calendar::days(n, anchor).on_business_days(days));
    let by_weeks = (n(), dates(), vec(weekday(), 0..4)).prop_map(|(n, anchor, weekdays)| {
        let rule = Calendar::weeks(n, anchor);
        if weekdays.is_empty() { rule } else { rule.on(weekdays) }
    });
    let by_months = (n(), dates(), month_days(), vec(month_days(), 0..2), business_days(dates())).prop_map(
        |(n, anchor, day, more, days)| {
            let rule = Calendar::months(n, anchor, day).with_business_days(days);
            more.into_iter().fold(rule, Calendar::and_on)
        },
    );
    let by_years =
        (1..9_u32, dates(), month_days()).prop_map(|(n, anchor, day)| Calendar::years(n, anchor, day));
    let any = prop_oneof![by_days, on_weekdays, on_business_days, by_weeks, by_months, by_years];
    (any, times(), proptest::option::weighted(0.2, dates())).prop_map(|(rule, times, until)| {
        let rule = rule.at_each(times);
        match until {
            Some(until) => rule.until(until),
            None => rule,
        }
    })
}

pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let cron = (expressions(), zones(), gaps()).prop_map(|(expression, name, gap)| {
        let rule = Cron::parse(&expression).unwrap().in_zone(zone(name));
        Plan::from(if let Some(gap) = gap { rule.with_gap(gap) } else { rule })
    });
    let calendar = (calendars(), zones()).prop_map(|(rule, name)| rule.in_zone(zone(name)).into());
    let periodic =
        (1..100_000_u64, starts()).prop_map(|(seconds, anchor)| Periodic::seconds(seconds, anchor).into());
    let leaf = prop_oneof![4 => cron, 4 => calendar, 1 => periodic, 1 => starts().prop_map(|at| Once::at(at).into())];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = || (inner.clone(), inner.clone());
        let two = || (starts(), starts()).prop_map(|(a, b): (Timestamp, Timestamp)| (a.min(b), a.max(b)));
        prop_oneof![
            pair().prop_map(|(a, b)| a.or(b)),
            (pair(), zones()).prop_map(|((a, b), name)| a.except_days_of(b, zone(name))),
            (inner.clone(), vec(starts(), 1..3)).prop_map(|(plan, instants)| plan.except_at(instants)),
            (inner.clone(), two()).prop_map(|(plan, (from, until))| plan.between(from, until)),
            (inner.clone(), starts(), 1..50_u32).prop_map(|(plan, from, n)| plan.times(n, from)),
        ]
    })
}
