//! Searches: for any rule, zone and start, the next instant is later than the start, and is found in bounded time.

#![no_main]

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use libfuzzer_sys::fuzz_target;
use timingwheel_calendar::{Cron, Gap, Overlap, Plan, Rule};

const ZONES: [&str; 16] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Manila",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Pacific/Chatham",
    "UTC",
];
const GAPS: [Option<Gap>; 3] = [None, Some(Gap::AfterGap), Some(Gap::Skip)];
const OVERLAPS: [Option<Overlap>; 4] =
    [None, Some(Overlap::First), Some(Overlap::Second), Some(Overlap::Both)];

/// Far more than any search takes that is not stopped by somebody else on the machine.
const MOST: Duration = Duration::from_secs(20);

fn check(rule: &impl Rule, start: Timestamp) {
    let mut last = start;
    for _ in 0..4 {
        let begin = Instant::now();
        let next = rule.after(last);
        assert!(begin.elapsed() < MOST, "a search that took {:?}", begin.elapsed());
        let Some(next) = next else { return };
        assert!(next > last, "{next} after {last}");
        let just_before = next - SignedDuration::from_nanos(1);
        assert_eq!(rule.after(just_before), Some(next), "from just before {next}, after {last}");
        last = next;
    }
}

fuzz_target!(|input: (u8, u8, i64, &str)| {
    let (zone, policies, start, text) = input;
    let zone = TimeZone::get(ZONES[usize::from(zone) % ZONES.len()]).expect("a zone that is bundled");
    let second = start.rem_euclid(Timestamp::MAX.as_second() - Timestamp::MIN.as_second());
    let start = Timestamp::from_second(Timestamp::MIN.as_second() + second).expect("in the range");
    if let Ok(plan) = text.parse::<Plan>() {
        check(&plan, start);
    } else if let Ok(cron) = Cron::parse(text) {
        let mut rule = cron.in_zone(zone);
        if let Some(gap) = GAPS[usize::from(policies) % GAPS.len()] {
            rule = rule.with_gap(gap);
        }
        if let Some(overlap) = OVERLAPS[usize::from(policies) / GAPS.len() % OVERLAPS.len()] {
            rule = rule.with_overlap(overlap);
        }
        check(&rule, start);
    }
});
