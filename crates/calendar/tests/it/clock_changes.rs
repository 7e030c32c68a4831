//! Days on which clocks change: gaps and overlaps of all kinds, and what a user may choose about them.

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
fn two_fixed_times_in_one_gap_are_one_run() {
    let rule = rule("10,20,50 2 * * *", "America/New_York");
    let found = between(&rule, "2027-03-14T00:00:00-05:00", "2027-03-15T02:15:00-04:00");
    assert_eq!(found, ["14 03:00-04:00", "15 02:10-04:00"]);
}

#[test]
fn a_fixed_time_at_the_end_of_a_gap_and_one_in_it_are_one_run() {
    let rule = rule("0,30 2,3 * * *", "Europe/Berlin");
    let found = between(&rule, "2026-03-29T00:00:00+01:00", "2026-03-29T12:00:00+02:00");
    assert_eq!(found, ["29 03:00+02:00", "29 03:30+02:00"]);
}

#[test]
fn lists_and_ranges_are_fixed_times() {
    let listed = rule("10,40 1 * * *", "America/New_York");
    let found = between(&listed, "2026-11-01T00:00:00-04:00", "2026-11-01T12:00:00-05:00");
    assert_eq!(found, ["01 01:10-04:00", "01 01:40-04:00"]);
    let hours = rule("30 0-2 * * *", "America/New_York");
    let found = between(&hours, "2026-11-01T00:00:00-04:00", "2026-11-01T12:00:00-05:00");
    assert_eq!(found, ["01 00:30-04:00", "01 01:30-04:00", "01 02:30-05:00"]);
}

#[test]
fn a_day_that_a_zone_leaves_out_neither_stops_nor_loops_a_schedule() {
    // Samoa went from 29 to 31 December 2011.
    let fixed = rule("0 9 * * *", "Pacific/Apia");
    let found = between(&fixed, "2011-12-28T12:00:00-10:00", "2012-01-01T12:00:00+14:00");
    assert_eq!(found, ["29 09:00-10:00", "31 00:00+14:00", "31 09:00+14:00", "01 09:00+14:00"]);
    let interval = rule("0 */8 * * *", "Pacific/Apia");
    let found = between(&interval, "2011-12-29T07:00:00-10:00", "2011-12-31T09:00:00+14:00");
    assert_eq!(found, ["29 08:00-10:00", "29 16:00-10:00", "31 00:00+14:00", "31 08:00+14:00"]);
    let skipped = fixed.with_gap(Gap::Skip);
    let found = between(&skipped, "2011-12-28T12:00:00-10:00", "2012-01-01T08:00:00+14:00");
    assert_eq!(found, ["29 09:00-10:00", "31 09:00+14:00"]);
}

#[test]
fn a_midnight_that_is_left_out_is_the_first_instant_of_the_day() {
    for (zone, from, to, expected) in [
        (
            "America/Santiago",
            "2026-09-05T12:00:00-04:00",
            "2026-09-07T12:00:00-03:00",
            ["06 01:00-03:00", "07 00:00-03:00"],
        ),
        (
            "America/Havana",
            "2026-03-07T12:00:00-05:00",
            "2026-03-09T12:00:00-04:00",
            ["08 01:00-04:00", "09 00:00-04:00"],
        ),
        (
            "Africa/Cairo",
            "2026-04-23T12:00:00+02:00",
            "2026-04-25T12:00:00+03:00",
            ["24 01:00+03:00", "25 00:00+03:00"],
        ),
    ] {
        assert_eq!(between(&rule("@daily", zone), from, to), expected, "{zone}");
    }
}

#[test]
fn an_overlap_across_midnight_runs_once() {
    // In Havana clocks go back from 01:00 to 00:00.
    let found = between(
        &rule("30 0 * * *", "America/Havana"),
        "2024-11-02T12:00:00-04:00",
        "2024-11-04T12:00:00-05:00",
    );
    assert_eq!(found, ["03 00:30-04:00", "04 00:30-05:00"]);
    // In Santiago from 24:00 to 23:00 of the day before.
    let found = between(
        &rule("30 23 * * *", "America/Santiago"),
        "2026-04-03T12:00:00-03:00",
        "2026-04-05T23:45:00-04:00",
    );
    assert_eq!(found, ["03 23:30-03:00", "04 23:30-03:00", "05 23:30-04:00"]);
}

#[test]
fn gaps_and_overlaps_of_half_an_hour_and_of_two() {
    let howe = rule("0,15,45 1 * * *", "Australia/Lord_Howe");
    // From 02:00 back to 01:30.
    let found = between(&howe, "2026-04-05T00:00:00+11:00", "2026-04-05T12:00:00+10:30");
    assert_eq!(found, ["05 01:00+11:00", "05 01:15+11:00", "05 01:45+11:00"]);
    let every = rule("*/15 1 * * *", "Australia/Lord_Howe");
    let found = between(&every, "2026-04-05T00:50:00+11:00", "2026-04-05T12:00:00+10:30");
    assert_eq!(
        found,
        [
            "05 01:00+11:00",
            "05 01:15+11:00",
            "05 01:30+11:00",
            "05 01:45+11:00",
            "05 01:30+10:30",
            "05 01:45+10:30"
        ]
    );
    // At Troll from 01:00 to 03:00.
    let found = between(
        &rule("0 1,2 * * *", "Antarctica/Troll"),
        "2026-03-29T00:00:00+00:00",
        "2026-03-29T12:00:00+02:00",
    );
    assert_eq!(found, ["29 03:00+02:00"]);
}

#[test]
fn flags_of_daylight_saving_time_do_not_count() {
    // In Dublin winter is what is flagged, and the clocks are those of London.
    for expression in ["30 1 * * *", "*/20 * * * *", "0 0-3 * * SUN"] {
        let (dublin, london) = (rule(expression, "Europe/Dublin"), rule(expression, "Europe/London"));
        for start in ["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"] {
            let instants = |rule: &InZone<Cron>| rule.upcoming(at(start)).take(100).collect::<Vec<_>>();
            assert_eq!(instants(&dublin), instants(&london), "{expression}");
        }
    }
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
