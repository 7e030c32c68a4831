//! The page `coming_from`: its rows for fixed times and intervals on the two odd days of the year, in a zone in which
//! clocks go from 02:00 to 03:00 and from 03:00 to 02:00.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, CronError, InZone, Rule};

const SHORT: &str = "2026-03-29";
const LONG: &str = "2026-10-25";

/// The runs of a day in Berlin; a second showing of an hour is marked.
fn runs_on(day: &str, cron: Result<Cron, CronError>) -> Vec<String> {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let rule: InZone<Cron> = cron.unwrap().in_zone(berlin.clone());
    let before: Timestamp =
        format!("{day}T00:00:00[Europe/Berlin]").parse::<jiff::Zoned>().unwrap().timestamp();
    let before = before - jiff::SignedDuration::from_nanos(1);
    let is_that_day = |at: &Timestamp| berlin.to_datetime(*at).date().to_string() == day;
    let instants = rule.upcoming(before).take_while(is_that_day);
    let shown = |at: Timestamp| {
        let first = berlin.to_ambiguous_timestamp(berlin.to_datetime(at)).earlier().unwrap();
        let mark = if first == at { "" } else { " again" };
        format!("{}{mark}", berlin.to_datetime(at).strftime("%H:%M"))
    };
    instants.map(shown).collect()
}

fn short(text: &str) -> Vec<String> {
    runs_on(SHORT, Cron::parse(text))
}

fn long(text: &str) -> Vec<String> {
    runs_on(LONG, Cron::parse(text))
}

#[test]
fn fixed_times_run_once_on_both_days() {
    assert_eq!(short("30 9 * * *"), ["09:30"]);
    assert_eq!(long("30 9 * * *"), ["09:30"]);
    assert_eq!(short("30 2 * * *"), ["03:00"]);
    assert_eq!(long("30 2 * * *"), ["02:30"]);
    assert_eq!(short("0,30 2 * * *"), ["03:00"]);
    assert_eq!(long("0,30 2 * * *"), ["02:00", "02:30"]);
    assert_eq!(short("30 1-3 * * *"), ["01:30", "03:00", "03:30"]);
    assert_eq!(long("30 1-3 * * *"), ["01:30", "02:30", "03:30"]);
    assert_eq!(short("@daily"), ["00:00"]);
    assert_eq!(long("@daily"), ["00:00"]);
}

#[test]
fn intervals_run_by_real_time_on_both_days() {
    assert_eq!(short("*/15 * * * *").len(), 23 * 4);
    assert_eq!(short("*/15 * * * *")[7..9], ["01:45", "03:00"]);
    assert_eq!(long("*/15 * * * *").len(), 25 * 4);
    assert_eq!(short("*/15 2 * * *"), [""; 0]);
    assert_eq!(long("*/15 2 * * *").len(), 8);
    assert_eq!(short("30 */2 * * *")[..2], ["00:30", "04:30"]);
    assert_eq!(long("30 */2 * * *")[..4], ["00:30", "02:30", "02:30 again", "04:30"]);
    assert_eq!(short("@hourly").len(), 23);
    assert_eq!(long("@hourly").len(), 25);
}

#[test]
fn expressions_of_quartz_do_the_same() {
    assert_eq!(runs_on(SHORT, Cron::parse_quartz("0 30 2 * * ?")), ["03:00"]);
    assert_eq!(runs_on(LONG, Cron::parse_quartz("0 30 2 * * ?")), ["02:30"]);
    assert_eq!(runs_on(SHORT, Cron::parse_quartz("0 0/15 * * * ?")).len(), 23 * 4);
    assert_eq!(runs_on(LONG, Cron::parse_quartz("0 0/15 * * * ?")).len(), 25 * 4);
    // Sundays are none of theirs.
    assert_eq!(runs_on(LONG, Cron::parse_quartz("0 0/15 9-17 ? * MON-FRI")), [""; 0]);
}
