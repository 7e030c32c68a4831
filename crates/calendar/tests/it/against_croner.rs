//! Random expressions against croner, where both say the same; and where they do not, what each does, and who is right.

use std::str::FromStr;

use crate::random::{away, by_minutes, modern_starts, near_a_change, zone, zones};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use timingwheel_calendar::{Cron, Rule};

/// The first instants that croner finds, up to one.
fn croners(
    expression: &str,
    zone_name: &str,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Timestamp>, String> {
    let cron = croner::Cron::from_str(expression).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let mut last = from.to_zoned(zone(zone_name));
    loop {
        match cron.find_next_occurrence(&last, false) {
            Ok(next) if next.timestamp() <= to => {
                found.push(next.timestamp());
                last = next;
            }
            Ok(_) => return Ok(found),
            Err(croner::errors::CronError::TimeSearchLimitExceeded) => return Ok(found),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn ours(expression: &str, zone_name: &str, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let rule = Cron::parse(expression).unwrap().in_zone(zone(zone_name));
    rule.upcoming(from).take_while(|&at| at <= to).collect()
}

/// Whether croner reads this expression, and takes it for what Vixie's cron does. Each case that is left out is one of the
/// differences below.
fn says_the_same(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split(' ').collect();
    let (minute, hour, day, weekday) = (fields[0], fields[1], fields[2], fields[4]);
    let is_single = |field: &str| field.bytes().all(|byte| byte.is_ascii_digit());
    let is_all = |field: &str| field == "*" || field == "?";
    let has_open_step = expression
        .split([' ', ','])
        .any(|part| part.split_once('/').is_some_and(|(from, _)| is_single(from)));
    let is_both = (day.starts_with("*/") && !is_all(weekday)) || (weekday.starts_with("*/") && !is_all(day));
    let is_interval = minute.starts_with('*') || hour.starts_with('*');
    !has_open_step && !day.contains("L-") && !is_both && (is_interval || is_single(minute) && is_single(hour))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, max_global_rejects: 100_000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn where_both_say_the_same_the_instants_are_the_same(
        expression in by_minutes(),
        zone_name in zones(),
        start in modern_starts(),
        away in away(),
    ) {
        prop_assume!(says_the_same(&expression));
        let from = near_a_change(&zone(zone_name), start, away);
        let to = from + SignedDuration::from_hours(24 * 60);
        prop_assume!(!(zone_name == "Pacific/Apia" && from.strftime("%Y").to_string() == "2011"));
        let expected = croners(&expression, zone_name, from, to);
        prop_assert_eq!(expected, Ok(ours(&expression, zone_name, from, to)), "{} in {} from {}", expression, zone_name, from);
    }
}

/// A difference: from when, what croner finds first and next, what is found here, and who is right.
struct Difference {
    expression: &'static str,
    zone: &'static str,
    from: &'static str,
    croners: Result<&'static [&'static str], &'static str>,
    ours: &'static [&'static str],
    why: &'static str,
}

const DIFFERENCES: [Difference; 6] = [
    Difference {
        expression: "10,40 2 * * *",
        zone: "Europe/Berlin",
        from: "2026-03-28T12:00:00+01:00",
        croners: Ok(&["2026-03-30T02:10:00+02:00", "2026-03-30T02:40:00+02:00"]),
        ours: &["2026-03-29T03:00:00+02:00", "2026-03-30T02:10:00+02:00"],
        why: "croner takes a list for an interval, and the day loses its runs. In Vixie's cron only `*` makes one",
    },
    Difference {
        expression: "10,40 2 * * *",
        zone: "Europe/Berlin",
        from: "2026-10-25T02:20:00+02:00",
        croners: Ok(&["2026-10-25T02:40:00+02:00", "2026-10-25T02:10:00+01:00"]),
        ours: &["2026-10-25T02:40:00+02:00", "2026-10-26T02:10:00+01:00"],
        why: "the same: croner runs twice in the overlap",
    },
    Difference {
        expression: "0 0 */2 * 5",
        zone: "UTC",
        from: "2026-05-01T00:00:00Z",
        croners: Ok(&["2026-05-03T00:00:00Z", "2026-05-05T00:00:00Z"]),
        ours: &["2026-05-15T00:00:00Z", "2026-05-29T00:00:00Z"],
        why: "a field of days that begins with `*` makes it both in Vixie's cron, and either in croner",
    },
    Difference {
        expression: "0 9 * * *",
        zone: "Pacific/Apia",
        from: "2011-12-29T12:00:00-10:00",
        croners: Ok(&[]),
        ours: &["2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"],
        why: "croner's search ends at the day that Samoa left out",
    },
    Difference {
        expression: "5/20 * * * *",
        zone: "UTC",
        from: "2026-05-01T00:00:00Z",
        croners: Err("Invalid step syntax"),
        ours: &["2026-05-01T00:05:00Z", "2026-05-01T00:25:00Z"],
        why: "a matter of taste: Quartz and cronie read it, Vixie's cron did not",
    },
    Difference {
        expression: "0 0 L-2 * *",
        zone: "UTC",
        from: "2026-05-01T00:00:00Z",
        croners: Err("Invalid start of range"),
        ours: &["2026-05-29T00:00:00Z", "2026-06-28T00:00:00Z"],
        why: "Quartz's, which croner does not read",
    },
];

#[test]
fn where_croner_differs_it_is_known_how_and_who_is_right() {
    for Difference { expression, zone, from, croners: theirs, ours: expected, why } in DIFFERENCES {
        let from: Timestamp = from.parse().unwrap();
        let to = from + SignedDuration::from_hours(24 * 120);
        let instants =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Timestamp>>();
        match (croners(expression, zone, from, to), theirs) {
            (Ok(found), Ok(theirs)) => {
                assert_eq!(found[..theirs.len()], instants(theirs), "{expression}: {why}");
            }
            (Err(found), Err(theirs)) => assert!(found.contains(theirs), "{expression}: {found}: {why}"),
            (found, _) => panic!("{expression}: croner does otherwise now: {found:?}"),
        }
        let found = ours(expression, zone, from, to);
        assert_eq!(found[..expected.len()], instants(expected), "{expression}: {why}");
    }
}
