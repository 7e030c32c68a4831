//! The instants of a year, in each of forty zones, against a table of each of its minutes.

use crate::random::{ZONES, zone};
use crate::reference::{Reference, walls};
use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel_calendar::{Cron, Rule};

/// Each kind of field, and times that changes of clocks concern somewhere.
const RULES: [&str; 24] = [
    "* 0-3,23 * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 */2 * * *",
    "*/15 2 * * *",
    "5,35 0-3 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "30 1 * * *",
    "0,30 2 * * *",
    "59 2 * * *",
    "0 3 * * SUN",
    "30 23 * * *",
    "15 2 * 3,10 *",
    "0 9 * * MON-FRI",
    "30 2 * * SUN#L",
    "45 1 * * 0#1,0#2,0#3",
    "0 0 L * *",
    "30 2 LW * *",
    "0 12 1W,15W,30W * *",
    "0 0 13 * FRI",
    "0 0 */2 * FRI",
    "30 0 L-2,1 4-9/2 ?",
    "1 0 29 2 *",
];

/// Two years for every second zone, and two for the others. Zones did odd things in them: Samoa left a day out in 2011, Egypt
/// changed four times in 2010, Lord Howe changes by half an hour in each year, Morocco pauses for Ramadan, and Troll changes
/// by two hours.
const YEARS: [[i16; 2]; 2] = [[2011, 2024], [2010, 2026]];

#[test]
fn a_year_has_the_instants_of_its_minutes_in_forty_zones() {
    let mut instants = 0;
    for (number, name) in ZONES.iter().enumerate() {
        let zone = zone(name);
        for (offset, year) in YEARS[number % 2].into_iter().enumerate() {
            let begin = TimeZone::UTC.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0)).unwrap();
            let days = i64::from(date(year, 1, 1).days_in_year());
            let end = begin + SignedDuration::from_hours(24 * days);
            let (before, last) = (begin - SignedDuration::from_mins(1), end - SignedDuration::from_mins(1));
            // Once for all rules: asking the zone is what takes time.
            let minutes = walls(&zone, SignedDuration::from_mins(1), before, last);
            // Each zone has each rule, in one of its years.
            for rule in RULES.iter().skip((number / 2 + offset) % 2).step_by(2) {
                let expected = Reference::new(rule).walk_on(&minutes, before);
                let found: Vec<Timestamp> = Cron::parse(rule)
                    .unwrap()
                    .in_zone(zone.clone())
                    .upcoming(begin - SignedDuration::from_nanos(1))
                    .take_while(|&at| at < end)
                    .collect();
                assert_eq!(found.len(), expected.len(), "{rule} in {name} in {year}");
                assert_eq!(found, expected, "{rule} in {name} in {year}");
                instants += found.len();
            }
        }
    }
    assert!(instants > 8_000_000, "{instants} are too few to mean anything");
}
