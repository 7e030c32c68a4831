//! Random expressions, forty zones, and starts near the days on which clocks change.

mod rules;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;
pub(crate) use rules::{business_days, calendars, gaps, month_days, overlaps, plans, weekday};

/// Gaps of half an hour, at midnight, of a day; rules of the south and the north; offsets of quarters; Ramadan; daylight
/// saving time that is negative; none at all.
pub(crate) const ZONES: [&str; 40] = [
    "Africa/Abidjan",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "America/Anchorage",
    "America/Asuncion",
    "America/Bogota",
    "America/Chicago",
    "America/Halifax",
    "America/Havana",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Eucla",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "UTC",
];

pub(crate) fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn zones() -> impl Strategy<Value = &'static str> {
    select(&ZONES[..])
}

fn numbers(least: u32, most: u32) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => (least..=most).prop_map(|number| number.to_string()),
        2 => (least..=most, least..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (least..=most, least..=most, 1..=most).prop_map(|(a, b, step)| {
            format!("{}-{}/{step}", a.min(b), a.max(b))
        }),
        1 => (least..=most, 1..=most).prop_map(|(from, step)| format!("{from}/{step}")),
    ];
    proptest::collection::vec(part, 1..3).prop_map(|parts| parts.join(","))
}

fn field(least: u32, most: u32, stars: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        stars => Just("*".to_owned()),
        2 => (1..=most).prop_map(|step| format!("*/{step}")),
        6 => numbers(least, most),
    ]
}

/// Every second one in the night, when clocks change.
fn hour() -> impl Strategy<Value = String> {
    prop_oneof![field(0, 23, 5), numbers(0, 3)]
}

fn day_of_month() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        4 => field(1, 31, 0),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (1..=30_u32).prop_map(|before| format!("L-{before}")),
        1 => (1..=31_u32).prop_map(|day| format!("{day}W")),
        1 => select(&["1W", "31W", "1W,L"][..]).prop_map(str::to_owned),
        1 => (1..=31_u32, numbers(1, 31)).prop_map(|(day, days)| format!("{days},{day}W,L")),
    ]
}

fn day_of_week() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        3 => numbers(0, 6),
        1 => Just("MON-FRI".to_owned()),
        1 => Just("5-7".to_owned()),
        1 => Just("*/2".to_owned()),
        1 => (0..=7_u32, 1..=5_u32).prop_map(|(day, nth)| format!("{day}#{nth}")),
        1 => (0..=7_u32).prop_map(|day| format!("{day}#L")),
        1 => (0..=7_u32, 0..=6_u32).prop_map(|(last, day)| format!("{day},{last}L")),
    ]
}

/// Five fields.
fn by_minutes() -> impl Strategy<Value = String> {
    (field(0, 59, 3), hour(), day_of_month(), field(1, 12, 12), day_of_week())
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

/// Five fields, or six.
pub(crate) fn expressions() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => by_minutes(),
        1 => (field(0, 59, 2), by_minutes()).prop_map(|(second, rest)| format!("{second} {rest}")),
    ]
}

/// Any second of a hundred and fifty years.
pub(crate) fn starts() -> impl Strategy<Value = Timestamp> {
    let (from, to) = (1_950_i64, 2_100_i64);
    let second_of = |year: i64| (year - 1_970) * 31_556_952;
    (second_of(from)..second_of(to)).prop_map(|second| Timestamp::from_second(second).unwrap())
}

/// An instant within two days of a change of clocks between 1990 and 2060, if the zone has any, in whole minutes.
pub(crate) fn near_a_change(zone: &TimeZone, start: Timestamp, away: i64) -> Timestamp {
    let change = zone.following(start).next().map_or(start, |change| change.timestamp());
    let near = change + SignedDuration::from_mins(away);
    Timestamp::from_second(near.as_second().div_euclid(60) * 60).unwrap()
}

pub(crate) fn away() -> impl Strategy<Value = i64> {
    prop_oneof![-180..180_i64, -2_880..2_880_i64]
}

pub(crate) fn modern_starts() -> impl Strategy<Value = Timestamp> {
    (631_152_000_i64..2_840_140_800).prop_map(|second| Timestamp::from_second(second).unwrap())
}
