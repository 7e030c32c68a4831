//! Plans that are made of others against sets of instants that are computed one by one.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use timingwheel_calendar::{Combine, Cron, Plan, Rule};

/// Years of which all is computed, from a midnight.
const BEGIN: &str = "2025-12-31T23:00:00Z";
const END: &str = "2028-03-01T00:00:00Z";
const DAYS: i64 = 790;

const CRONS: [&str; 7] =
    ["0 9 * * *", "0 */6 * * *", "30 2 * * MON", "0 0 1 * *", "0 12 L * *", "0 0 29 2 *", "0 0 30 2 *"];

#[derive(Clone, Debug)]
enum Shape {
    Cron(&'static str),
    Any(Vec<Shape>),
    ExceptDays(Box<Shape>, Box<Shape>),
    /// Each nth instant is left out.
    ExceptAt(Box<Shape>, usize),
    /// From a day to a day.
    Between(Box<Shape>, i64, i64),
    Times(Box<Shape>, i64, u32),
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn just_before(text: &str) -> Timestamp {
    at(text) - SignedDuration::from_nanos(1)
}

fn day(n: i64) -> Timestamp {
    at(BEGIN) + SignedDuration::from_hours(24 * n)
}

fn zone() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

impl Shape {
    fn plan(&self) -> Plan {
        match self {
            Self::Cron(text) => Cron::parse(text).unwrap().in_zone(zone()).into(),
            Self::Any(parts) => parts.iter().map(Self::plan).reduce(Combine::or).unwrap(),
            Self::ExceptDays(rule, days_of) => rule.plan().except_days_of(days_of.plan(), zone()),
            Self::ExceptAt(rule, nth) => rule.plan().except_at(rule.instants().into_iter().step_by(*nth)),
            Self::Between(rule, from, until) => rule.plan().between(day(*from), day(*until)),
            // Where there are fewer, nobody has to count up to the year 9999.
            Self::Times(rule, from, n) => rule.plan().until(at(END)).times(*n, day(*from)),
        }
    }

    fn instants(&self) -> BTreeSet<Timestamp> {
        let date = |at: &Timestamp| -> Date { at.to_zoned(zone()).date() };
        match self {
            Self::Cron(text) => {
                let rule = Cron::parse(text).unwrap().in_zone(zone());
                rule.upcoming(just_before(BEGIN)).take_while(|&instant| instant < at(END)).collect()
            }
            Self::Any(parts) => parts.iter().flat_map(Self::instants).collect(),
            Self::ExceptDays(rule, days_of) => {
                let left_out: BTreeSet<Date> = days_of.instants().iter().map(date).collect();
                rule.instants().into_iter().filter(|at| !left_out.contains(&date(at))).collect()
            }
            Self::ExceptAt(rule, nth) => {
                let all = rule.instants().into_iter().enumerate();
                all.filter(|(index, _)| index % nth != 0).map(|(_, at)| at).collect()
            }
            Self::Between(rule, from, until) => {
                let (from, until) = (day(*from), day(*until));
                rule.instants().into_iter().filter(|&at| from <= at && at <= until).collect()
            }
            Self::Times(rule, from, n) => {
                let all = rule.instants().into_iter().filter(|&at| day(*from) <= at);
                all.take(usize::try_from(*n).unwrap()).collect()
            }
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = proptest::sample::select(&CRONS[..]).prop_map(Shape::Cron);
    leaf.prop_recursive(4, 12, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Shape::Any),
            (boxed(), boxed()).prop_map(|(rule, days_of)| Shape::ExceptDays(rule, days_of)),
            (boxed(), 1_usize..5).prop_map(|(rule, nth)| Shape::ExceptAt(rule, nth)),
            (boxed(), 1..DAYS, 1..DAYS).prop_map(|(rule, from, until)| Shape::Between(rule, from, until)),
            (boxed(), 1..DAYS / 2, 1_u32..20).prop_map(|(rule, from, n)| Shape::Times(rule, from, n)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_has_the_instants_that_its_parts_make(shape in shapes(), starts in vec(0..DAYS * 24, 24)) {
        // The last day may be one that is not computed up to its end.
        let last_day = at(END) - SignedDuration::from_hours(48);
        let all: Vec<Timestamp> = shape.instants().into_iter().filter(|&at| at < last_day).collect();
        let plan = shape.plan().until(at(END));
        let upcoming = |start| plan.upcoming(start).take_while(|&at| at < last_day);
        prop_assert!(upcoming(just_before(BEGIN)).eq(all.iter().copied()), "{}", plan);
        for start in starts {
            let start = at(BEGIN) + SignedDuration::from_hours(start);
            let expected: Vec<Timestamp> = all.iter().copied().filter(|&at| start < at).take(3).collect();
            prop_assert_eq!(upcoming(start).take(3).collect::<Vec<_>>(), expected, "{} after {}", plan, start);
        }
    }
}
