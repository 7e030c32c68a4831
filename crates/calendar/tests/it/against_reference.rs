//! Random expressions against a second implementation, written apart, that walks through real time. With
//! `PROPTEST_CASES=10000` they are 10,000.

use std::cell::Cell;

use crate::random::{away, expressions, modern_starts, near_a_change, zone, zones};
use crate::reference::Reference;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use timingwheel_calendar::{Cron, Rule};

/// As many days as take the walk about as long as it takes to read this.
fn days(expression: &str) -> i64 {
    if expression.split_whitespace().count() == 6 { 1 } else { 40 }
}

#[test]
fn round_changes_of_clocks_it_has_the_instants_of_a_walk() {
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let (cases, instants) = (config.cases as usize, Cell::new(0));
    let random = (expressions(), zones(), modern_starts(), away());
    let ran = TestRunner::new(config).run(&random, |(expression, zone_name, start, away)| {
        let zone = zone(zone_name);
        let from = near_a_change(&zone, start, away);
        let to = from + SignedDuration::from_hours(24 * days(&expression));
        let expected = Reference::new(&expression).walk(&zone, from, to);
        let rule = Cron::parse(&expression).unwrap().in_zone(zone);
        let found: Vec<Timestamp> = rule.upcoming(from).take_while(|&at| at <= to).collect();
        instants.set(instants.get() + found.len());
        prop_assert_eq!(found, expected, "{} in {} from {}", expression, zone_name, from);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    println!("{} instants of {cases} expressions", instants.get());
    assert!(instants.get() > 500 * cases, "{} are too few to mean anything", instants.get());
}
