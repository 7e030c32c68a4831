//! The search for the next instant of a plan that is made of others.
//!
//! It goes forward only. Each part remembers the instant that it found last, or up to where it found none. So no part
//! goes over the same days twice, and a part that has ended is not asked again. A search looks a day ahead, then twice
//! as far, and so on, and stops at the first instant that a part has found.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::combine::Limits;
use super::{Kind, Plan};
use crate::rule::Rule;

/// A place in the instants of a plan.
pub(super) struct Search<'a> {
    plan: &'a Plan,
    parts: Vec<Search<'a>>,
    found: Found,
}

/// The result of a search after some instant.
#[derive(Clone, Copy)]
enum Found {
    /// This is the first.
    At(Timestamp),
    /// There is none up to this instant, which is included. If this is the last instant of jiff, that is final.
    NoneUpTo(Timestamp),
}

const NEVER: Found = Found::NoneUpTo(Timestamp::MAX);

/// How far a search looks at first. Each time that it finds nothing it looks twice as far.
const FIRST_LOOK: SignedDuration = SignedDuration::from_hours(24);

/// The instant before this one.
pub(super) fn before(instant: Timestamp) -> Timestamp {
    instant.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

impl<'a> Search<'a> {
    /// A search for instants after this one.
    pub(super) fn new(plan: &'a Plan, last: Timestamp) -> Self {
        let new = |part: &'a Plan| Self::new(part, last);
        let parts = match &plan.0 {
            Kind::Cron(_) | Kind::Calendar(_) | Kind::Periodic(_) | Kind::Once(_) => Vec::new(),
            Kind::Any(plans) => plans.iter().map(new).collect(),
            // A rule except on its own days.
            Kind::ExceptDays(except) if except.rule == except.days_of => {
                return Self { plan, parts: Vec::new(), found: NEVER };
            }
            // An instant before `last` may leave out the rest of its day.
            Kind::ExceptDays(except) => {
                vec![new(&except.rule), Self::new(&except.days_of, Timestamp::MIN)]
            }
            Kind::ExceptAt(except) => vec![new(&except.rule)],
            Kind::Limits(limits) => vec![new(&limits.rule)],
        };
        Self { plan, parts, found: Found::NoneUpTo(last) }
    }

    /// The first instant after `last`, which is never earlier than at the call before.
    pub(super) fn after(&mut self, last: Timestamp) -> Option<Timestamp> {
        let (mut end, mut look) = (last, FIRST_LOOK);
        loop {
            let until = end.saturating_add(look).unwrap_or(Timestamp::MAX);
            match self.next(last, until) {
                Found::At(found) => return Some(found),
                Found::NoneUpTo(none) if none == Timestamp::MAX => return None,
                Found::NoneUpTo(none) => (end, look) = (none, look.saturating_mul(2)),
            }
        }
    }

    /// The first instant after `last`, or none up to `until` at least. One that is later than `until` may be returned too.
    fn next(&mut self, last: Timestamp, until: Timestamp) -> Found {
        #[cfg(test)]
        tests::count(1);
        let last = match self.found {
            Found::At(found) if found > last => return self.found,
            Found::At(_) => last,
            Found::NoneUpTo(end) => end.max(last),
        };
        if last >= until {
            return if last == Timestamp::MAX { NEVER } else { Found::NoneUpTo(last) };
        }
        self.found = self.look(last, until);
        self.found
    }

    fn look(&mut self, mut last: Timestamp, until: Timestamp) -> Found {
        match (&self.plan.0, &mut *self.parts) {
            (Kind::Any(_), parts) => any(parts, last, until),
            (Kind::ExceptDays(except), [rule, days_of]) => loop {
                let found = match rule.next(last, until) {
                    Found::At(found) if found > until => return Found::NoneUpTo(before(found)),
                    Found::At(found) => found,
                    none @ Found::NoneUpTo(_) => return none,
                };
                let (begin, end) = day(&except.zone, found);
                match days_of.next(before(begin), before(end)) {
                    // Never back, whatever clocks did at midnight.
                    Found::At(left_out) if left_out < end => last = before(end).max(found),
                    _ => return Found::At(found),
                }
            },
            (Kind::ExceptAt(except), [rule]) => loop {
                match rule.next(last, until) {
                    Found::At(found) if except.instants.contains(&found) => last = found,
                    found => return found,
                }
            },
            (Kind::Limits(limits), [rule]) => within(limits, rule, last, until),
            _ => {
                #[cfg(test)]
                tests::count(tests::STEPS_OF_A_RULE);
                self.plan.after(last).map_or(NEVER, Found::At)
            }
        }
    }
}

/// The earliest instant that the parts find.
fn any(parts: &mut [Search<'_>], last: Timestamp, until: Timestamp) -> Found {
    let (mut first, mut none_up_to) = (None, Timestamp::MAX);
    for part in parts {
        // Instants after the first do not matter.
        let until = first.map_or(until, |first| until.min(first));
        match part.next(last, until) {
            Found::At(found) => first = Some(first.map_or(found, |first| found.min(first))),
            Found::NoneUpTo(end) => none_up_to = none_up_to.min(end),
        }
    }
    match first {
        Some(first) if first <= until => Found::At(first),
        Some(first) => Found::NoneUpTo(none_up_to.min(before(first))),
        None => Found::NoneUpTo(none_up_to),
    }
}

fn within(limits: &Limits, rule: &mut Search<'_>, last: Timestamp, until: Timestamp) -> Found {
    let last = limits.from.map_or(last, |from| last.max(before(from)));
    let end = limits.end().unwrap_or(Timestamp::MAX);
    match rule.next(last, until.min(end)) {
        Found::At(found) if found > end => NEVER,
        Found::NoneUpTo(none) if none >= end => NEVER,
        found => found,
    }
}

/// The first instants of a day, by the clocks of a zone, and of the next.
fn day(zone: &TimeZone, instant: Timestamp) -> (Timestamp, Timestamp) {
    let begin =
        |day: Date, outside| zone.to_ambiguous_timestamp(day.at(0, 0, 0, 0)).compatible().unwrap_or(outside);
    let day = zone.to_datetime(instant).date();
    let end = day.tomorrow().map_or(Timestamp::MAX, |next| begin(next, Timestamp::MAX));
    (begin(day, Timestamp::MIN), end)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    /// The steps of asking a single rule. Asking a part that may have found something before is one step.
    pub(super) const STEPS_OF_A_RULE: u64 = 16;

    pub(super) fn count(steps: u64) {
        STEPS.set(STEPS.get() + steps);
    }

    /// The result of a search, and its number of steps.
    fn counted<T>(search: impl FnOnce() -> T) -> (T, u64) {
        STEPS.set(0);
        let found = search();
        (found, STEPS.get())
    }

    fn plan(text: &str) -> Plan {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    const START: Timestamp = Timestamp::UNIX_EPOCH;
    /// It leaves out each day up to the year 9999.
    const ENDED: &str = "(cron 0 9 * * * in UTC) except days (cron 0 8 * * * in UTC) in UTC";

    #[test]
    fn a_part_that_has_nothing_is_searched_no_further_than_another_has_something() {
        for text in [
            format!("any ({ENDED}) (cron * * * * * in UTC)"),
            format!("any (cron * * * * * in UTC) ({ENDED})"),
            format!(
                "(any ({ENDED}) (cron 0 0 * * * in UTC)) from 1970-01-01T00:00:00Z until 1980-01-01T00:00:00Z"
            ),
        ] {
            let plan = plan(&text);
            for year in 0..10 {
                let last = START + SignedDuration::from_hours(365 * 24 * year);
                let (found, steps) = counted(|| Search::new(&plan, last).after(last));
                assert!(found.is_some() && steps < 1_000, "{text}: {steps} steps");
            }
        }
    }

    #[test]
    fn a_part_is_searched_no_further_than_what_another_has_found() {
        let plan = plan(&format!("any (cron * * * * * in UTC) ({ENDED})"));
        let (found, steps) = counted(|| Search::new(&plan, START).next(START, Timestamp::MAX));
        assert!(matches!(found, Found::At(_)) && steps < 100, "{steps} steps");
    }

    #[test]
    fn a_part_is_asked_again_only_when_what_it_found_is_over() {
        for other in ["once at 1970-01-01T00:00:01Z", "once at 9000-01-01T00:00:00Z", "cron 0 0 1 1 * in UTC"]
        {
            let plan = plan(&format!("any ({other}) (cron * * * * * in UTC)"));
            let (mut search, mut last) = (Search::new(&plan, START), START);
            let runs = 10_000;
            let ((), steps) = counted(|| (0..runs).for_each(|_| last = search.after(last).unwrap()));
            // For each run, the whole and both parts are asked, and one of them searches.
            let most = (runs + 100) * (3 + STEPS_OF_A_RULE);
            assert!(steps < most, "{steps} steps");
        }
    }

    #[test]
    fn a_search_within_a_search_goes_over_the_days_once() {
        // Each of 20,000 days is left out, and one part of what is left out has ended.
        let plan = plan(&format!(
            "(any ({ENDED}) (cron 0 10 * * * in UTC)) except days (any ({ENDED}) (cron 0 7 * * * in UTC) (once at 1970-01-01T00:00:01Z)) in UTC"
        ));
        let until = START + SignedDuration::from_hours(24 * 20_000);
        let (found, steps) = counted(|| Search::new(&plan, START).next(START, until));
        assert!(matches!(found, Found::NoneUpTo(end) if end >= until));
        assert!(steps < 20_000 * 10 * STEPS_OF_A_RULE, "{steps} steps");
    }
}
