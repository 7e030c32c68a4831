//! Calendar rules where a walk through some years does not come: rules that never run, far years, instants, and days on
//! which clocks change.

use jiff::civil::{Date, Weekday, date, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use timingwheel_calendar::{
    BusinessDays, Calendar, Combine, Cron, Gap, MonthDay, MonthEnd, Once, Periodic, Rule,
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The first instants of a rule, as dates of UTC.
fn days(rule: &impl Rule, from: &str, count: usize) -> Vec<String> {
    rule.upcoming(at(from)).take(count).map(|at| TimeZone::UTC.to_datetime(at).date().to_string()).collect()
}

fn in_utc(rule: Calendar) -> impl Rule {
    rule.in_zone(TimeZone::UTC)
}

#[test]
fn a_leap_day_is_the_28th_or_left_out_in_other_years_and_2100_is_no_leap_year() {
    let clamped = in_utc(Calendar::years(1, date(2096, 2, 29), MonthEnd::Clamp));
    assert_eq!(days(&clamped, "2099-01-01T00:00:00Z", 2), ["2099-02-28", "2100-02-28"]);
    let left_out = in_utc(Calendar::years(1, date(2096, 2, 29), MonthEnd::LeaveOut));
    assert_eq!(days(&left_out, "2096-01-01T00:00:00Z", 3), ["2096-02-29", "2104-02-29", "2108-02-29"]);
    let each_century = in_utc(Calendar::years(100, date(2000, 2, 29), MonthEnd::LeaveOut));
    assert_eq!(days(&each_century, "2000-03-01T00:00:00Z", 2), ["2400-02-29", "2800-02-29"]);
}

#[test]
fn weekdays_that_are_business_days_are_both() {
    // Good Friday.
    let firm = || BusinessDays::default().with_holidays([date(2026, 4, 3)]);
    let fridays = Calendar::days(1, date(2026, 3, 28)).on_business_days(firm()).on([Weekday::Friday]);
    assert_eq!(fridays, Calendar::days(1, date(2026, 3, 28)).on([Weekday::Friday]).on_business_days(firm()));
    assert_eq!(fridays.describe(), "at 00:00 every day if it is a business day and Friday, from 2026-03-28");
    let sundays = Calendar::days(1, date(2026, 1, 1)).on_business_days(firm()).on([Weekday::Sunday]);
    assert_eq!(in_utc(sundays).after(at("2026-01-01T00:00:00Z")), None);
    // Far apart, so that the first seven are all holidays.
    let holidays =
        (0..10).map(|week| date(2026, 1, 2).saturating_add(SignedDuration::from_hours(24 * 7 * week)));
    let rule = Calendar::days(1, date(2026, 1, 1))
        .on([Weekday::Friday])
        .on_business_days(BusinessDays::default().with_holidays(holidays));
    assert_eq!(days(&in_utc(rule), "2026-01-01T00:00:00Z", 1), ["2026-03-13"]);
}

#[test]
fn a_rule_without_a_business_day_is_proven_to_be_never() {
    let all = (1..=7).map(|offset| Weekday::from_monday_one_offset(offset).unwrap());
    let rule = Calendar::days(1, date(2026, 1, 1)).on_business_days(BusinessDays::without(all));
    assert_eq!(in_utc(rule).after(at("2026-01-01T00:00:00Z")), None);
    // Each 7th day from a Thursday is no Monday.
    let rule = Calendar::days(7, date(2026, 1, 1)).on([Weekday::Monday]);
    assert_eq!(in_utc(rule).after(Timestamp::MIN), None);
}

#[test]
fn holidays_are_dates_of_one_year_or_of_each_or_from_a_function_for_some_years() {
    let business = BusinessDays::without([Weekday::Friday, Weekday::Saturday])
        .with_yearly_holiday(1, 1)
        .with_holidays([date(2026, 1, 4)]);
    let contained = |day: i8| business.contains(date(2026, 1, day));
    assert_eq!([1, 2, 3, 4, 5].map(contained), [false, false, false, false, true]);
    assert!(business.contains(date(2027, 1, 4)) && !business.contains(date(2029, 1, 1)));
    let business =
        BusinessDays::monday_to_friday().with_holidays_where(2026..=2027, |day: Date| day.day() == 13);
    assert!(!business.contains(date(2026, 1, 13)));
    assert!(!business.contains(date(2027, 12, 13)));
    assert!(business.contains(date(2028, 1, 13)));
}

#[test]
fn a_time_in_a_gap_is_after_it_and_one_that_comes_twice_is_the_first() {
    let rule = Calendar::days(1, date(2026, 1, 1))
        .at_each([time(2, 30, 0, 0), time(2, 45, 0, 0)])
        .in_zone(TimeZone::get("Europe/Berlin").unwrap());
    let spring: Vec<Timestamp> = rule.upcoming(at("2026-03-28T12:00:00Z")).take(3).collect();
    assert_eq!(
        spring,
        [at("2026-03-29T03:00:00+02:00"), at("2026-03-30T02:30:00+02:00"), at("2026-03-30T02:45:00+02:00")]
    );
    let autumn: Vec<Timestamp> = rule.upcoming(at("2026-10-24T12:00:00Z")).take(3).collect();
    assert_eq!(
        autumn,
        [at("2026-10-25T02:30:00+02:00"), at("2026-10-25T02:45:00+02:00"), at("2026-10-26T02:30:00+01:00")]
    );
    let skipped = rule.with_gap(Gap::Skip);
    assert_eq!(skipped.after(at("2026-03-28T12:00:00Z")), Some(at("2026-03-30T02:30:00+02:00")));
}

#[test]
fn once_after_thirty_days_is_not_once_after_720_hours() {
    let start: Zoned = "2026-10-10T09:00:00[America/New_York]".parse().unwrap();
    let days = Once::after_calendar_days(&start, 30);
    assert_eq!(days.after(start.timestamp()), Some(at("2026-11-09T09:00:00-05:00")));
    assert_eq!(days.after(at("2026-11-09T09:00:00-05:00")), None);
    assert_eq!(
        Once::after_hours(start.timestamp(), 720).after(start.timestamp()),
        Some(at("2026-11-09T08:00:00-05:00"))
    );
    // A fraction of a second is never early.
    let start: Zoned = "2026-10-10T23:59:59.5[UTC]".parse().unwrap();
    let days = Once::after_calendar_days(&start, 1);
    assert_eq!(days.after(start.timestamp()), Some(at("2026-10-12T00:00:00Z")));
    assert_eq!(Once::after_calendar_days(&start, u32::MAX).after(Timestamp::MAX), None);
    assert_eq!(Once::after_hours(Timestamp::MAX, u32::MAX).after(Timestamp::MIN), Some(Timestamp::MAX));
}

#[test]
fn what_is_beyond_the_end_of_time_is_at_its_end_in_every_zone() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Niue", "Asia/Kathmandu"] {
        let start = at("9999-12-01T12:00:00.5Z").to_zoned(TimeZone::get(zone).unwrap());
        for days in [30, 40, u32::MAX] {
            let once = Once::after_calendar_days(&start, days).after(start.timestamp());
            assert_eq!(once, Some(at("9999-12-30T22:00:00Z")), "{days} in {zone}");
        }
        let hours = Once::after_hours(start.timestamp(), u32::MAX).after(start.timestamp());
        assert_eq!(hours, Some(Timestamp::MAX));
    }
}

#[test]
fn real_time_goes_on_whatever_clocks_show() {
    let rule = Periodic::hours(24, at("2026-03-28T12:00:00+01:00"));
    assert_eq!(rule.after(at("2026-03-28T12:00:00+01:00")), Some(at("2026-03-29T13:00:00+02:00")));
    assert_eq!(rule.after(Timestamp::MIN), Some(at("2026-03-28T12:00:00+01:00")));
    assert_eq!(Periodic::seconds(u64::MAX, Timestamp::MIN).after(Timestamp::MIN), None);
    let fraction = Periodic::minutes(1, at("2026-01-01T00:00:00.25Z"));
    assert_eq!(fraction.after(at("2026-01-01T00:00:00.25Z")), Some(at("2026-01-01T00:01:00.25Z")));
}

#[test]
fn a_rule_of_which_all_days_are_left_out_is_proven_to_be_never() {
    let utc = |text: &str| Cron::parse(text).unwrap().in_zone(TimeZone::UTC);
    let never = utc("0 9 * * *").except_days_of(utc("0 8 * * *"), TimeZone::UTC);
    assert_eq!(never.after(at("2026-12-24T18:00:00Z")), None, "each day is looked at, and there is an end");
}

#[test]
fn an_exception_is_the_day_of_its_zone_also_where_midnight_is_left_out() {
    let santiago = TimeZone::get("America/Santiago").unwrap();
    let hourly = Cron::parse("30 * * * *").unwrap().in_zone(santiago.clone());
    // On that day clocks go from 00:00 to 01:00.
    let day = Calendar::once(date(2026, 9, 6).at(12, 0, 0, 0)).in_zone(santiago.clone());
    let rule = hourly.except_days_of(day, santiago);
    let last = at("2026-09-05T23:30:00-04:00");
    assert_eq!(rule.after(last), Some(at("2026-09-07T00:30:00-03:00")));
}

#[test]
#[should_panic(expected = "the number of days must be at least 1, got 0")]
fn every_no_days_is_refused() {
    let _ = Calendar::days(0, date(2026, 1, 1));
}

#[test]
#[should_panic(expected = "the number of a weekday must be 1 to 5 or -1 to -5, got 6")]
fn a_sixth_friday_is_refused() {
    let _ = Calendar::months(1, date(2026, 1, 1), MonthDay::Weekday(Weekday::Friday, 6));
}
