//! Days on which clocks change: what a user may choose about them, and the ends of time. `year_of_minutes` and
//! `against_reference` have gaps and overlaps of all kinds.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, Gap, InZone, Overlap, Rule};

fn rule(expression: &str, zone: &str) -> InZone<Cron> {
    Cron::parse(expression).unwrap().in_zone(TimeZone::get(zone).unwrap())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The instants from one to another, by the clocks of the rule's zone.
fn between(rule: &InZone<Cron>, from: &str, to: &str) -> Vec<String> {
    let zone = rule.zone().clone();
    let instants = rule.upcoming(at(from)).take_while(|&next| next <= at(to));
    instants.map(|at| at.to_zoned(zone.clone()).strftime("%d %H:%M%:z").to_string()).collect()
}

#[test]
fn a_user_chooses_otherwise_by_name() {
    let fixed = rule("30 2 * * *", "Europe/Berlin");
    let spring =
        |rule: &InZone<Cron>| between(rule, "2026-03-28T12:00:00+01:00", "2026-03-30T12:00:00+02:00");
    let autumn =
        |rule: &InZone<Cron>| between(rule, "2026-10-24T12:00:00+02:00", "2026-10-26T12:00:00+01:00");
    assert_eq!(spring(&fixed.clone().with_gap(Gap::AfterGap)), ["29 03:00+02:00", "30 02:30+02:00"]);
    assert_eq!(spring(&fixed.clone().with_gap(Gap::Skip)), ["30 02:30+02:00"]);
    assert_eq!(autumn(&fixed.clone().with_overlap(Overlap::First)), ["25 02:30+02:00", "26 02:30+01:00"]);
    assert_eq!(autumn(&fixed.clone().with_overlap(Overlap::Second)), ["25 02:30+01:00", "26 02:30+01:00"]);
    assert_eq!(
        autumn(&fixed.with_overlap(Overlap::Both)),
        ["25 02:30+02:00", "25 02:30+01:00", "26 02:30+01:00"]
    );
    // An interval that leaves the second pass out, as systemd's.
    let interval = rule("*/30 * * * *", "Europe/Berlin").with_overlap(Overlap::First);
    let found = between(&interval, "2026-10-25T01:30:00+02:00", "2026-10-25T03:00:00+01:00");
    assert_eq!(found, ["25 02:00+02:00", "25 02:30+02:00", "25 03:00+01:00"]);
    // Samoa went from 29 to 31 December 2011.
    let skipped = rule("0 9 * * *", "Pacific/Apia").with_gap(Gap::Skip);
    let found = between(&skipped, "2011-12-28T12:00:00-10:00", "2012-01-01T08:00:00+14:00");
    assert_eq!(found, ["29 09:00-10:00", "31 09:00+14:00"]);
}

#[test]
fn a_time_that_is_always_in_a_gap_is_proven_to_be_never() {
    // The second Sunday of March at two, from 2007 on.
    let rule = rule("*/10 2 * 3 0#2", "America/New_York");
    assert_eq!(rule.after(at("2026-01-01T00:00:00Z")), None);
    // And before it came to be.
    assert!(rule.after(at("2006-01-01T00:00:00Z")).is_some());
    let never = self::rule("0 0 30 2 *", "America/New_York");
    assert_eq!(never.after(Timestamp::MIN), None);
}

#[test]
fn the_first_and_last_instants_that_there_are_do_no_harm() {
    for expression in ["* * * * * *", "0 0 1 1 *", "0 9 * * MON-FRI", "59 23 31 12 *"] {
        for zone in ["UTC", "Pacific/Apia", "America/New_York", "Pacific/Kiritimati"] {
            let rule = rule(expression, zone);
            assert!(rule.after(Timestamp::MIN).is_some(), "{expression} in {zone}");
            assert_eq!(rule.after(Timestamp::MAX), None, "{expression} in {zone}");
        }
    }
}

#[test]
fn instants_before_1970_have_fractions_too() {
    let rule = rule("* * * * * *", "UTC");
    assert_eq!(rule.after(at("1969-12-31T23:59:58.5Z")), Some(at("1969-12-31T23:59:59Z")));
    assert_eq!(rule.after(at("1969-12-31T23:59:59.999Z")), Some(at("1970-01-01T00:00:00Z")));
}
