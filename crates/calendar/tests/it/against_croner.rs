//! Where croner differs, what each does, and who is right. The page `coming_from` says so too.

use std::str::FromStr;

use crate::random::zone;
use jiff::{SignedDuration, Timestamp};
use timingwheel_calendar::{Cron, Rule};

/// The first instants that croner finds, up to one.
fn croners(expression: &str, zone_name: &str, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let cron = croner::Cron::from_str(expression).unwrap();
    let mut found = Vec::new();
    let mut last = from.to_zoned(zone(zone_name));
    loop {
        match cron.find_next_occurrence(&last, false) {
            Ok(next) if next.timestamp() <= to => {
                found.push(next.timestamp());
                last = next;
            }
            Ok(_) | Err(croner::errors::CronError::TimeSearchLimitExceeded) => return found,
            Err(error) => panic!("{error}"),
        }
    }
}

fn ours(expression: &str, zone_name: &str, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let rule = Cron::parse(expression).unwrap().in_zone(zone(zone_name));
    rule.upcoming(from).take_while(|&at| at <= to).collect()
}

/// A difference: from when, what croner finds first and next, what is found here, and who is right.
struct Difference {
    expression: &'static str,
    zone: &'static str,
    from: &'static str,
    croners: &'static [&'static str],
    ours: &'static [&'static str],
    why: &'static str,
}

const DIFFERENCES: [Difference; 4] = [
    Difference {
        expression: "10,40 2 * * *",
        zone: "Europe/Berlin",
        from: "2026-03-28T12:00:00+01:00",
        croners: &["2026-03-30T02:10:00+02:00", "2026-03-30T02:40:00+02:00"],
        ours: &["2026-03-29T03:00:00+02:00", "2026-03-30T02:10:00+02:00"],
        why: "croner takes a list for an interval, and the day loses its runs. In Vixie's cron only `*` makes one",
    },
    Difference {
        expression: "10,40 2 * * *",
        zone: "Europe/Berlin",
        from: "2026-10-25T02:20:00+02:00",
        croners: &["2026-10-25T02:40:00+02:00", "2026-10-25T02:10:00+01:00"],
        ours: &["2026-10-25T02:40:00+02:00", "2026-10-26T02:10:00+01:00"],
        why: "the same: croner runs twice in the overlap",
    },
    Difference {
        expression: "0 0 */2 * 5",
        zone: "UTC",
        from: "2026-05-01T00:00:00Z",
        croners: &["2026-05-03T00:00:00Z", "2026-05-05T00:00:00Z"],
        ours: &["2026-05-15T00:00:00Z", "2026-05-29T00:00:00Z"],
        why: "a field of days that begins with `*` makes it both in Vixie's cron, and either in croner",
    },
    Difference {
        expression: "0 9 * * *",
        zone: "Pacific/Apia",
        from: "2011-12-29T12:00:00-10:00",
        croners: &[],
        ours: &["2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"],
        why: "croner's search ends at the day that Samoa left out",
    },
];

#[test]
fn where_croner_differs_it_is_known_how_and_who_is_right() {
    for Difference { expression, zone, from, croners: theirs, ours: expected, why } in DIFFERENCES {
        let from: Timestamp = from.parse().unwrap();
        let to = from + SignedDuration::from_hours(24 * 120);
        let instants =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Timestamp>>();
        let found = croners(expression, zone, from, to);
        assert!(found.starts_with(&instants(theirs)), "{expression}: {found:?}: {why}");
        assert_eq!(found.is_empty(), theirs.is_empty(), "{expression}: {why}");
        let found = ours(expression, zone, from, to);
        assert_eq!(found[..expected.len()], instants(expected), "{expression}: {why}");
    }
}
