//! Calendar rules: what each does at the ends of months, on holidays, and when clocks change.

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
fn the_31st_is_clamped_from_the_anchor_and_comes_back_in_long_months() {
    let rule = in_utc(Calendar::months(1, date(2027, 10, 31), MonthEnd::Clamp));
    assert_eq!(
        days(&rule, "2027-10-30T12:00:00Z", 7),
        ["2027-10-31", "2027-11-30", "2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]
    );
}

#[test]
fn the_31st_is_left_out_of_short_months_by_the_other_name() {
    let rule = in_utc(Calendar::months(1, date(2027, 10, 31), MonthEnd::LeaveOut));
    assert_eq!(
        days(&rule, "2027-10-30T12:00:00Z", 4),
        ["2027-10-31", "2027-12-31", "2028-01-31", "2028-03-31"]
    );
}

#[test]
fn a_leap_day_is_the_28th_or_left_out_in_other_years_and_2100_is_no_leap_year() {
    let clamped = in_utc(Calendar::years(1, date(2096, 2, 29), MonthEnd::Clamp));
    assert_eq!(
        days(&clamped, "2096-01-01T00:00:00Z", 6),
        ["2096-02-29", "2097-02-28", "2098-02-28", "2099-02-28", "2100-02-28", "2101-02-28"]
    );
    let left_out = in_utc(Calendar::years(1, date(2096, 2, 29), MonthEnd::LeaveOut));
    assert_eq!(days(&left_out, "2096-01-01T00:00:00Z", 3), ["2096-02-29", "2104-02-29", "2108-02-29"]);
    let each_century = in_utc(Calendar::years(100, date(2000, 2, 29), MonthEnd::LeaveOut));
    assert_eq!(days(&each_century, "2000-03-01T00:00:00Z", 2), ["2400-02-29", "2800-02-29"]);
}

#[test]
fn every_two_weeks_counts_weeks_from_monday() {
    // A Wednesday.
    let rule = in_utc(Calendar::weeks(2, date(2026, 1, 7)).on([Weekday::Monday, Weekday::Friday]));
    assert_eq!(
        days(&rule, "2026-01-01T00:00:00Z", 5),
        ["2026-01-09", "2026-01-19", "2026-01-23", "2026-02-02", "2026-02-06"]
    );
}

#[test]
fn business_days_go_round_the_weekend_and_the_users_holidays() {
    let business =
        BusinessDays::monday_to_friday().with_yearly_holiday(1, 1).with_holidays([date(2027, 1, 29)]);
    let of = |day| in_utc(Calendar::months(1, date(2027, 1, 1), day).with_business_days(business.clone()));
    assert_eq!(days(&of(MonthDay::BusinessDay(1)), "2026-12-01T00:00:00Z", 2), ["2027-01-04", "2027-02-01"]);
    assert_eq!(days(&of(MonthDay::BusinessDay(-1)), "2026-12-01T00:00:00Z", 2), ["2027-01-28", "2027-02-26"]);
    assert_eq!(days(&of(MonthDay::BusinessDay(3)), "2026-12-01T00:00:00Z", 2), ["2027-01-06", "2027-02-03"]);
    // The 1st of May is a Saturday: not back into April.
    let nearest = of(MonthDay::NearestBusinessDay(1, MonthEnd::Clamp));
    assert_eq!(days(&nearest, "2027-04-02T00:00:00Z", 2), ["2027-05-03", "2027-06-01"]);
    let every = in_utc(Calendar::days(1, date(2027, 1, 1)).on_business_days(business));
    assert_eq!(days(&every, "2027-01-27T00:00:00Z", 3), ["2027-01-28", "2027-02-01", "2027-02-02"]);
}

#[test]
fn weekdays_that_are_business_days_are_both() {
    // Good Friday.
    let firm = || BusinessDays::default().with_holidays([date(2026, 4, 3)]);
    let fridays = Calendar::days(1, date(2026, 3, 28)).on_business_days(firm()).on([Weekday::Friday]);
    assert_eq!(fridays, Calendar::days(1, date(2026, 3, 28)).on([Weekday::Friday]).on_business_days(firm()));
    assert_eq!(fridays.describe(), "at 00:00 every day if it is a business day and Friday, from 2026-03-28");
    assert_eq!(days(&in_utc(fridays), "2026-03-27T12:00:00Z", 2), ["2026-04-10", "2026-04-17"]);
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
fn a_weekend_may_be_other_days() {
    let business = BusinessDays::without([Weekday::Friday, Weekday::Saturday]);
    let rule =
        in_utc(Calendar::months(1, date(2026, 1, 1), MonthDay::BusinessDay(-1)).with_business_days(business));
    assert_eq!(days(&rule, "2026-01-01T00:00:00Z", 2), ["2026-01-29", "2026-02-26"]);
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
fn holidays_are_taken_from_a_function_for_some_years() {
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
fn a_rule_ends_on_its_last_date_which_is_included() {
    let rule = in_utc(Calendar::days(1, date(2026, 1, 1)).until(date(2026, 1, 3)));
    assert_eq!(days(&rule, "2025-01-01T00:00:00Z", 9), ["2026-01-01", "2026-01-02", "2026-01-03"]);
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
fn unions_and_exceptions_are_by_instants_and_by_days() {
    let utc = |text: &str| Cron::parse(text).unwrap().in_zone(TimeZone::UTC);
    let both = utc("0 9 * * *").or(utc("0 9 1 * *")).or(utc("0 10 1 * *"));
    let hours: Vec<String> = both
        .upcoming(at("2026-01-31T12:00:00Z"))
        .take(3)
        .map(|at| at.strftime("%d %H").to_string())
        .collect();
    assert_eq!(hours, ["01 09", "01 10", "02 09"], "an instant of two rules is one");
    let without = utc("0 */6 * * *").except_days_of(utc("0 0 25,26 12 *"), TimeZone::UTC);
    assert_eq!(
        without.after(at("2026-12-24T12:00:00Z")),
        Some(at("2026-12-24T18:00:00Z")),
        "the day before is whole"
    );
    assert_eq!(without.after(at("2026-12-24T18:00:00Z")), Some(at("2026-12-27T00:00:00Z")));
    assert_eq!(utc("0 9 * * *").except_days_of(utc("0 9 * * *"), TimeZone::UTC).after(Timestamp::MIN), None);
    let never = utc("0 9 * * *").except_days_of(utc("0 8 * * *"), TimeZone::UTC);
    assert_eq!(never.after(at("2026-12-24T18:00:00Z")), None, "each day is looked at, and there is an end");
    let christmas = at("2026-12-25T09:00:00Z");
    assert_eq!(
        utc("0 9 * * *").except_at([christmas]).after(at("2026-12-24T09:00:00Z")),
        Some(at("2026-12-26T09:00:00Z"))
    );
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
fn limits_are_included_and_times_are_counted_from_the_beginning() {
    let daily = Cron::parse("0 9 * * *").unwrap().in_zone(TimeZone::UTC);
    let (from, until) = (at("2026-01-02T09:00:00Z"), at("2026-01-04T09:00:00Z"));
    let rule = daily.clone().between(from, until);
    assert_eq!(days(&rule, "2025-01-01T00:00:00Z", 9), ["2026-01-02", "2026-01-03", "2026-01-04"]);
    let rule = daily.times(3, from);
    assert_eq!(days(&rule, "2025-01-01T00:00:00Z", 9), ["2026-01-02", "2026-01-03", "2026-01-04"]);
    assert_eq!(days(&rule, "2026-01-03T09:00:00Z", 9), ["2026-01-04"], "they are not counted anew");
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
