//! Plans through a format: a plan that is written can be read back.

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use timingwheel_calendar::{BusinessDays, Calendar, Combine, Cron, MonthEnd, Plan, Rule};

#[test]
fn nothing_is_stored_that_cannot_be_read_back() {
    let daily = || Cron::parse("0 9 * * *").unwrap().in_zone(TimeZone::UTC);
    let stored = |plan: &Plan| serde_json::to_string(plan).map_err(|error| error.to_string());
    let is_read_back = |plan: &Plan| {
        let stored = stored(plan).unwrap();
        assert_eq!(&serde_json::from_str::<Plan>(&stored).unwrap(), plan, "{stored}");
    };
    let instants: Vec<Timestamp> = daily().upcoming(Timestamp::UNIX_EPOCH).take(40).collect();
    is_read_back(&daily().except_at([]));
    assert_eq!(daily().except_at([]), daily().into());
    // One after the other is the same as all at once.
    let chain = instants.iter().fold(Plan::from(daily()), |plan, &instant| plan.except_at([instant]));
    is_read_back(&chain);
    assert_eq!(chain, daily().except_at(instants.clone()));

    let deep = instants.iter().fold(Plan::from(daily()), |plan, &instant| plan.until(instant));
    assert!(stored(&deep).unwrap_err().contains("plans within plans must be at most 32 deep"));
    let days = BusinessDays::default().with_holidays_where(2000..=2100, |_| true);
    let long = Calendar::days(1, date(2026, 1, 1)).on_business_days(days).in_zone(TimeZone::UTC);
    assert!(
        serde_json::to_string(&long).unwrap_err().to_string().contains("must be at most 65536 bytes long")
    );
    assert!(stored(&long.into()).unwrap_err().contains("must be at most 65536 bytes long"));
    let posix = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
    assert!(stored(&daily().with_zone(posix).into()).unwrap_err().contains("in a zone without a name"));
    is_read_back(&daily().with_zone(TimeZone::fixed(jiff::tz::offset(2))).into());

    for months in [1_200_000, 1_200_012, 2_400_000, u32::MAX] {
        let rule = Calendar::months(months, date(2026, 1, 31), MonthEnd::Clamp).in_zone(TimeZone::UTC);
        is_read_back(&rule.into());
    }
}

#[test]
fn times_are_counted_when_the_plan_is_asked_and_not_when_it_is_read() {
    let daily = |text| Cron::parse(text).unwrap().in_zone(TimeZone::UTC);
    let until = "4000-01-01T00:00:00Z".parse().unwrap();
    // All days are left out: counting takes a search for each.
    let ended = daily("0 9 * * *").except_days_of(daily("0 8 * * *"), TimeZone::UTC).until(until);
    let plan = ended.or(daily("0 9 1 1 *")).times(1_500, Timestamp::UNIX_EPOCH);
    // Hundreds of them would take minutes to count.
    let many = (0..200).fold(plan.clone(), |many, _| many.or(plan.clone()));
    let stored = serde_json::to_string(&many).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), many);
    assert_eq!(plan.upcoming(Timestamp::UNIX_EPOCH).nth(1).unwrap().to_string(), "1971-01-01T09:00:00Z");
    // Whether it is counted makes no difference.
    assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
}
