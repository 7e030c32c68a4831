//! The texts of plans: how they are read, and the errors of texts that are none.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use timingwheel_calendar::{Calendar, Combine, Cron, InZone, Periodic, Plan, Rule};

#[test]
fn a_plan_is_read_as_it_is_printed() {
    for text in [
        "cron 0 9 * * 1-5 in Europe/Berlin",
        "cron */30 * * * * in America/New_York gap after overlap first",
        "cron 30 2 * * * in +02:00 gap skip",
        "cron 30 2 * * * in UTC overlap both",
        "every 1 days from 2026-01-01 at 00:00 in UTC",
        "every 3 days from 2026-01-01 on MON,SUN at 09:00,17:30:15 until 2026-12-31 in UTC",
        "every 1 days from 2026-01-01 on business at 09:00 weekend FRI,SAT holidays 12-25,2026-04-03 in Asia/Dubai",
        "every 1 days from 2026-01-01 on business at 09:00 weekend none in Asia/Dubai",
        "every 1 days from 2026-01-01 on business,MON,FRI at 09:00 in UTC",
        "every 2 weeks from 2026-01-05 on MON at 09:00 in UTC",
        "every 1 months from 2026-01-31 on clamp at 00:00 in UTC",
        "every 3 months from 2026-01-31 on leave-out,day#30/clamp,L-1,FRI#-1,business#2,near#15/leave-out at 00:00 in UTC",
        "every 1 years from 2024-02-29 on leave-out at 08:00 in Pacific/Auckland",
        "every 90 minutes from 2026-01-01T00:00:00Z",
        "every 24 hours from 2026-01-01T00:00:00.5Z",
        "every 59 seconds from 2026-01-01T00:00:00Z",
        "once at 2026-12-24T18:00:00Z",
        "any (once at 2026-12-24T18:00:00Z) (cron 0 9 * * * in UTC) (cron 0 10 * * * in UTC)",
        "((cron 0 9 * * * in UTC) until 2027-01-01T00:00:00Z) except days (cron 0 0 25 12 * in UTC) in Asia/Tokyo",
        "(cron 0 9 * * * in UTC) except at 2026-12-24T09:00:00Z,2026-12-25T09:00:00Z",
        "(cron 0 9 * * * in UTC) from 2026-01-01T00:00:00Z until 2027-01-01T00:00:00Z",
        "(cron 0 9 * * * in UTC) from 2026-01-01T00:00:00Z",
        "(cron 0 9 * * * in UTC) from 2026-01-01T00:00:00Z times 5",
    ] {
        let plan: Plan = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.to_string(), text);
        assert_eq!(text.parse::<Plan>().unwrap(), plan);
    }
}

#[test]
fn rules_with_their_zones_are_read_alone_too() {
    let rule: InZone<Cron> = "cron 0 9 * * * in Asia/Tokyo".parse().unwrap();
    assert_eq!(rule.to_string(), "cron 0 9 * * * in Asia/Tokyo");
    let other = "once at 2026-12-24T18:00:00Z";
    let error = other.parse::<InZone<Cron>>().unwrap_err().to_string();
    assert!(error.starts_with("this plan is not a cron expression\n"), "{error}");
    let error = other.parse::<InZone<Calendar>>().unwrap_err().to_string();
    assert!(error.starts_with("this plan is not a calendar rule\n"), "{error}");
}

#[test]
fn plans_are_equal_if_they_are_made_in_the_same_way_of_equal_rules() {
    let cron = |text, zone| Cron::parse(text).unwrap().in_zone(TimeZone::get(zone).unwrap());
    assert_eq!(Plan::from(cron("@daily", "UTC")), Plan::from(cron("0 0 * * *", "UTC")));
    assert_ne!(Plan::from(cron("@daily", "UTC")), Plan::from(cron("@daily", "Asia/Tokyo")));
    let start = Timestamp::UNIX_EPOCH;
    assert_eq!(cron("@daily", "UTC").times(3, start), cron("@daily", "UTC").times(3, start));
    assert_ne!(cron("@daily", "UTC").times(3, start), cron("@daily", "UTC").times(4, start));
    let fixed = Cron::parse("@daily").unwrap().in_zone(TimeZone::fixed(Offset::constant(2)));
    assert_eq!(fixed.to_string(), "cron 0 0 * * * in +02:00");
    assert_ne!(Plan::from(Periodic::minutes(60, start)), Plan::from(Periodic::minutes(61, start)));
    assert_eq!(Plan::from(Periodic::minutes(60, start)), Plan::from(Periodic::hours(1, start)));
}

#[test]
fn an_error_says_what_is_wrong_and_points_at_it() {
    for line in include_str!("plan_errors.tsv").lines().skip(1) {
        let &[text, problem, marked] = line.split('\t').collect::<Vec<_>>().as_slice() else {
            panic!("{line}")
        };
        let [text, marked] = [text, marked].map(|quoted| quoted.trim_matches('`'));
        let error = text.parse::<Plan>().unwrap_err();
        assert_eq!(error.to_string().lines().next(), Some(problem), "{text}");
        assert_eq!(&text[error.place()], marked, "{text}: {error}");
    }
}

#[test]
fn an_error_in_a_cron_expression_says_what_the_field_takes() {
    let error = "cron 0 25 * * * in UTC".parse::<Plan>().unwrap_err().to_string();
    let alone = Cron::parse("0 25 * * *").unwrap_err().to_string();
    assert_eq!(error.lines().nth(3), alone.lines().nth(3));
    assert_eq!(error.lines().count(), 4);
}

#[test]
fn the_first_day_there_is_is_left_out_only_if_it_is_asked() {
    let hours = Periodic::hours(1, Timestamp::MIN);
    let rule = hours.except_days_of(Cron::parse("0 0 1 6 *").unwrap().in_zone(TimeZone::UTC), TimeZone::UTC);
    assert_eq!(rule.after(Timestamp::MIN), hours.after(Timestamp::MIN));
}

#[test]
fn plans_within_plans_have_a_bound() {
    let deep =
        |depth: usize| format!("{}once at 2026-01-01T00:00:00Z{}", "any (".repeat(depth), ")".repeat(depth));
    assert!(deep(30).parse::<Plan>().is_ok());
    assert!(
        deep(40)
            .parse::<Plan>()
            .unwrap_err()
            .to_string()
            .starts_with("plans within plans must be at most 32 deep")
    );
    assert!(deep(20_000).parse::<Plan>().unwrap_err().to_string().len() < 300);
}
