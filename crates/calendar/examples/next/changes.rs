//! The days on which clocks change, and what runs on them.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel_calendar::Plan;

use crate::months::{begin, runs_on};

/// More runs of a day than this are counted, and not listed.
const LISTED: usize = 6;

/// What clocks show when they change, and right after.
pub(crate) struct Change {
    from: DateTime,
    to: DateTime,
}

fn changes(zone: &TimeZone, from: Timestamp) -> impl Iterator<Item = (Timestamp, Change)> {
    let before = |at: Timestamp| at.saturating_sub(SignedDuration::from_secs(1)).unwrap_or(at);
    zone.following(before(from)).filter_map(move |change| {
        let at = change.timestamp();
        let offset = zone.to_offset(before(at));
        let change = Change { from: offset.to_datetime(at), to: change.offset().to_datetime(at) };
        // Some change a name, and not the clocks.
        (change.from != change.to).then_some((at, change))
    })
}

/// The change on a day, if there is one.
pub(crate) fn on(day: Date, zone: &TimeZone) -> Option<Change> {
    let from = begin(day, zone);
    let end = day.tomorrow().map_or(Timestamp::MAX, |next| begin(next, zone));
    changes(zone, from).next().filter(|(at, _)| *at < end).map(|(_, change)| change)
}

/// Those of the months that are shown, or else the next one.
pub(crate) fn print(months: &[Date], rule: &Plan, zone: &TimeZone, from: Timestamp) {
    let days = months
        .iter()
        .flat_map(|month| month.series(jiff::ToSpan::days(1)).take_while(|day| day.month() == month.month()));
    let mut found: Vec<(Date, Change)> = days.filter_map(|day| Some((day, on(day, zone)?))).collect();
    if found.is_empty() {
        let next = changes(zone, from).next();
        found.extend(next.map(|(at, change)| (zone.to_datetime(at).date(), change)));
    }
    for (day, Change { from, to }) in found {
        let which = if from < to { "forward" } else { "back" };
        println!(
            "\n{}: clocks go {which} from {} to {}",
            day.strftime("%a %e %b %Y"),
            from.strftime("%H:%M"),
            to.strftime(if to.date() == from.date() { "%H:%M" } else { "%H:%M of %e %b" }),
        );
        println!("  {}", runs(day, rule, zone));
    }
}

fn runs(day: Date, rule: &Plan, zone: &TimeZone) -> String {
    let runs = runs_on(day, rule, zone, usize::MAX);
    if runs.is_empty() {
        return "no run on that day".into();
    }
    if runs.len() > LISTED {
        return format!("{} runs on that day", runs.len());
    }
    let times: Vec<String> =
        runs.iter().map(|at| at.to_zoned(zone.clone()).strftime("%H:%M %Z").to_string()).collect();
    format!("runs on that day at {}", times.join(", "))
}
