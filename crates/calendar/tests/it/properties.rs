//! Properties of any rule, any zone and any start.

use crate::random::{
    away, calendars, expressions, gaps, near_a_change, overlaps, plans, starts, zone, zones,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use timingwheel_calendar::{Calendar, Cron, InZone, Plan, Rule};

/// The same sample in each run; `CALENDAR_SEED` tries another.
fn config(cases: u32) -> ProptestConfig {
    let seed = std::env::var("CALENDAR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// The next instant is later, and the same from each start between the two.
fn check_next(rule: &impl Rule, start: Timestamp, share: f64) -> Result<(), TestCaseError> {
    let Some(next) = rule.after(start) else {
        // Nor from any later start.
        prop_assert_eq!(rule.after(start + SignedDuration::from_hours(24 * 365)), None);
        return Ok(());
    };
    prop_assert!(next > start);
    let within = start + SignedDuration::from_secs_f64(next.duration_since(start).as_secs_f64() * share);
    let within = within.clamp(start, next - NANOSECOND);
    prop_assert_eq!(rule.after(within), Some(next), "from {} and from {}", start, within);
    prop_assert_eq!(rule.after(next - NANOSECOND), Some(next));
    let Some(after_next) = rule.after(next) else { return Ok(()) };
    prop_assert!(after_next > next);
    Ok(())
}

proptest! {
    #![proptest_config(config(4_000))]

    #[test]
    fn the_next_instant_is_later_and_the_same_from_any_start_before_it(
        expression in expressions(),
        zone_name in zones(),
        (gap, overlap) in (gaps(), overlaps()),
        (start, away, is_near) in (starts(), away(), any::<bool>()),
        share in 0.0..1.0_f64,
    ) {
        let zone = zone(zone_name);
        let start = if is_near { near_a_change(&zone, start, away) } else { start };
        let mut rule = Cron::parse(&expression).unwrap().in_zone(zone);
        if let Some(gap) = gap {
            rule = rule.with_gap(gap);
        }
        if let Some(overlap) = overlap {
            rule = rule.with_overlap(overlap);
        }
        check_next(&rule, start, share)?;
    }

    #[test]
    fn an_expression_that_is_printed_and_read_is_the_same(expression in expressions()) {
        let cron = Cron::parse(&expression).unwrap();
        let printed = cron.to_string();
        prop_assert_eq!(Cron::parse(&printed).unwrap(), cron, "{} was printed as {}", expression, printed);
        prop_assert_eq!(Cron::parse(&printed).unwrap().to_string(), printed);
        prop_assert!(!cron.describe().is_empty());
    }

    #[test]
    fn a_calendar_rule_that_is_printed_and_read_is_the_same(rule in calendars(), zone_name in zones()) {
        let rule: InZone<Calendar> = rule.in_zone(zone(zone_name));
        let printed = rule.to_string();
        prop_assert_eq!(printed.parse::<InZone<Calendar>>().unwrap(), rule, "{}", printed);
    }

    #[test]
    fn a_calendar_rules_next_instant_is_later_and_the_same_from_any_start_before_it(
        rule in calendars(),
        zone_name in zones(),
        start in starts(),
        share in 0.0..1.0_f64,
    ) {
        check_next(&rule.in_zone(zone(zone_name)), start, share)?;
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn a_plan_that_is_printed_or_stored_and_read_is_the_same_and_its_next_instant_is_later(
        plan in plans(),
        start in starts(),
        share in 0.0..1.0_f64,
    ) {
        let printed = plan.to_string();
        prop_assert_eq!(&printed.parse::<Plan>().unwrap(), &plan, "{}", printed);
        #[cfg(feature = "serde")]
        prop_assert_eq!(&serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), &plan);
        check_next(&plan, start, share)?;
    }
}
