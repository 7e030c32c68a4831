//! Computes when a series is due next. Pure: it is told the time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
pub(crate) use timingwheel_calendar::runs::is_late;
use timingwheel_calendar::runs::{self, CatchingUp, NextRun};
use timingwheel_calendar::{Plan, Rule};

use crate::id::{floor_millis, millis, timestamp};
use crate::store::Series;

/// The rule of a series: a plan, whose runs are all later by the same time.
pub(crate) struct Shifted {
    plan: Plan,
    by: SignedDuration,
}

impl Rule for Shifted {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        let last = last.checked_sub(self.by).unwrap_or(Timestamp::MIN);
        self.plan.after(last)?.checked_add(self.by).ok()
    }

    fn is_interval(&self) -> bool {
        self.plan.is_interval()
    }
}

/// Between a plan and its shift in milliseconds, in the text of a rule.
const LATER: &str = " later by ";

impl FromStr for Shifted {
    type Err = String;

    fn from_str(rule: &str) -> Result<Self, String> {
        let (plan, by) = rule.rsplit_once(LATER).unwrap_or((rule, "0 ms"));
        let by = by.strip_suffix(" ms").and_then(|by| by.parse().ok());
        let by =
            by.ok_or_else(|| format!("a shift must be a number of ms, as in `later by 5 ms`, got {rule:?}"))?;
        let plan = plan.parse::<Plan>().map_err(|error| error.to_string())?;
        Ok(Self { plan, by: SignedDuration::from_millis(by) })
    }
}

impl fmt::Display for Shifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)?;
        if self.by.is_zero() { Ok(()) } else { write!(f, "{LATER}{} ms", self.by.as_millis()) }
    }
}

/// The rule whose runs come later than the plan's, by a time up to `most` that the name decides: by FNV-1a, because a save at the next
/// start has to find the same.
pub(crate) fn shifted(plan: Plan, name: &str, most: Duration) -> Shifted {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    // Beyond these years no run comes.
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs());
    Shifted { plan, by: SignedDuration::from_millis((hash % (most + 1)).cast_signed()) }
}

/// An occurrence of a series: its scheduled instant, and how the series stands then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) due: Timestamp,
    pub(crate) series: Series,
    /// The clock was wrong before. Instants that have run by it may come again, and must not have the same ids.
    pub(crate) begins_anew: bool,
}

/// Whether the occurrence of this instant, which comes up now, runs or was missed; and how its series stands then.
pub(crate) fn occurs(series: &Series, scheduled: Timestamp, now: Timestamp) -> (bool, Series) {
    let (runs, catching_up) = runs::begins(series.missed, scheduled, caught_up(series), now);
    (runs, Series { catching_up: in_millis(catching_up), ..series.clone() })
}

/// How a series stands when its occurrence runs again, because its process ended in the middle of it. If it was a missed run,
/// it counts as another of the missed runs that may still run.
pub(crate) fn occurs_again(series: &Series, scheduled: Timestamp) -> Series {
    let mut series = series.clone();
    if let Some((until, left)) = &mut series.catching_up
        && scheduled.as_millisecond() <= *until
    {
        *left = left.saturating_sub(1);
    }
    series
}

/// As the store has it.
fn in_millis(catching_up: CatchingUp) -> Option<(i64, u32)> {
    catching_up.map(|(until, left)| (until.as_millisecond(), left))
}

fn caught_up(series: &Series) -> CatchingUp {
    series.catching_up.map(|(until, left)| (timestamp(until), left))
}

/// The first occurrence after this instant.
pub(crate) fn first(series: Series, plan: &Shifted, after: Timestamp) -> Option<Next> {
    // The store has milliseconds.
    let after = timestamp(floor_millis(after));
    let due = plan.after(after)?;
    Some(Next { due, series: series.planned_after(after), begins_anew: false })
}

/// # Errors
/// In words, if this machine cannot read the rule: for example because it does not know its zone.
pub(crate) fn read(rule: &str) -> Result<Shifted, String> {
    rule.parse().map_err(|error| format!("the rule {rule:?} cannot be read: {error}"))
}

/// The occurrence after this one, which has run or was skipped. `None` if the series is over.
///
/// # Errors
/// If the rule cannot be read.
pub(crate) fn next(series: &Series, scheduled: Timestamp, now: Timestamp) -> Result<Option<Next>, String> {
    let now = timestamp(floor_millis(now));
    let next = runs::next(&read(&series.rule)?, series.missed, scheduled, caught_up(series), now);
    Ok(next.map(|NextRun { due, after, catching_up }| {
        let series = Series { catching_up: in_millis(catching_up), ..series.clone() };
        Next { due, series: series.planned_after(after), begins_anew: false }
    }))
}

/// The occurrence that the rule has by today's clock and zone data. `None` if that is the pending one.
///
/// The clock may have been wrong when the pending one was planned, or first saved. Or governments have changed their clocks
/// since. An overdue run stays: the policy for missed runs decides about it.
///
/// # Errors
/// If the rule cannot be read.
pub(crate) fn anew(series: &Series, scheduled: Timestamp, now: Timestamp) -> Result<Option<Next>, String> {
    let Some(after) = series.after().filter(|_| scheduled >= now) else { return Ok(None) };
    let plan = read(&series.rule)?;
    let begins_anew = runs::begins_anew(&plan, after.duration_since(now), Some(scheduled));
    let standing = if begins_anew { Series { catching_up: None, ..series.clone() } } else { series.clone() };
    let next = first(standing, &plan, if begins_anew { now } else { after });
    let next = next.map(|next| Next { begins_anew, ..next });
    Ok(next.filter(|next| millis(next.due) != millis(scheduled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Missed;
    use jiff::SignedDuration;

    fn at(text: &str) -> Timestamp {
        format!("2026-06-{text}Z").parse().unwrap()
    }

    /// The days that run, of a rule that is asked to run at 9 each day, from the 2nd on; `outage` is when the program is
    /// away: at its end it is due for all of it. Ends before the 12th.
    fn runs(missed: Missed, outage: (&str, &str)) -> Vec<String> {
        let mut series = Series::new("cron 0 9 * * * in UTC".into(), missed);
        let (mut now, mut due) = (at("01T10:00:00"), at("02T09:00:00"));
        let (from, to) = (at(outage.0), at(outage.1));
        let mut ran = Vec::new();
        while due < at("12T00:00:00") {
            now = now.max(due);
            if now >= from && now < to {
                now = to;
            }
            let (runs, stands) = occurs(&series, due, now);
            series = stands;
            ran.extend(runs.then(|| due.strftime("%d").to_string()));
            let next = next(&series, due, now).unwrap().unwrap();
            assert!(next.due > due, "{next:?} after {due}");
            (due, series) = (next.due, next.series);
        }
        ran
    }

    #[test]
    fn missed_runs_follow_their_policy() {
        let outage = ("04T00:00:00", "08T12:00:00");
        let run = |missed| runs(missed, outage).join(" ");
        assert_eq!(run(Missed::once()), "02 03 04 09 10 11");
        assert_eq!(run(Missed::none()), "02 03 09 10 11");
        assert_eq!(run(Missed::each(3)), "02 03 04 05 06 09 10 11");
        assert_eq!(run(Missed::each(99)), "02 03 04 05 06 07 08 09 10 11");
        let day = SignedDuration::from_hours(30);
        assert_eq!(run(Missed::each(99).none_older_than(day)), "02 03 07 08 09 10 11");
        assert_eq!(run(Missed::once().none_older_than(day)), "02 03 07 09 10 11");
    }

    #[test]
    fn series_that_all_begin_at_midnight_are_spread_by_their_names_within_the_bound_and_alike_each_time() {
        let plan: Plan = "cron 0 0 * * * in UTC".parse().unwrap();
        let hour = Duration::from_secs(3_600);
        let after = |rule: String| rule.parse::<Shifted>().unwrap().after(at("02T05:00:00")).unwrap();
        let mut minutes = [0; 60];
        for n in 0..6_000 {
            let shift = |n: i32| shifted(plan.clone(), &format!("tenant-{n}"), hour).to_string();
            let rule = shift(n);
            assert_eq!(rule, shift(n));
            let due = after(rule).duration_since(at("03T00:00:00"));
            assert!((SignedDuration::ZERO..=SignedDuration::from_hours(1)).contains(&due), "{due:?}");
            minutes[usize::try_from(due.as_secs() / 60).unwrap().min(59)] += 1;
        }
        assert!(minutes.iter().all(|count| (60..140).contains(count)), "{minutes:?}");
        assert_eq!(shifted(plan.clone(), "tenant", Duration::ZERO).to_string(), plan.to_string());
        assert_eq!(shifted(plan, "report", hour).to_string(), "cron 0 0 * * * in UTC later by 2331830 ms");
        for rule in ["cron 0 0 * * * in UTC later by x ms", "cron 0 0 * * * in UTC later by 5"] {
            assert!(rule.parse::<Shifted>().is_err(), "{rule}");
        }
        // The shift of a run before midnight belongs to the day before.
        let late: Shifted = "cron 0 0 * * * in UTC later by 21600000 ms".parse().unwrap();
        assert_eq!(late.after(at("02T05:00:00")), Some(at("02T06:00:00")));
        assert_eq!(late.after(Timestamp::MAX), None);
    }

    #[test]
    fn a_run_that_is_late_by_less_than_a_second_was_not_missed() {
        assert_eq!(
            runs(Missed::none(), ("04T00:00:00", "04T09:00:00.999")).join(" "),
            "02 03 04 05 06 07 08 09 10 11"
        );
        assert_eq!(
            runs(Missed::none(), ("04T00:00:00", "04T09:00:01")).join(" "),
            "02 03 05 06 07 08 09 10 11"
        );
    }

    #[test]
    fn a_rule_by_the_second_that_was_missed_for_a_year_passes_it_at_once() {
        let series = Series::new("every 1 seconds from 2025-01-01T00:00:00Z".into(), Missed::each(2));
        let now = at("05T12:00:00.5");
        let mut due: Timestamp = "2025-06-01T00:00:00Z".parse().unwrap();
        let (mut series, mut ran, mut looks) = (series, 0, 0);
        while due <= now {
            let (runs, stands) = occurs(&series, due, now);
            series = stands;
            ran += u32::from(runs);
            let next = next(&series, due, now).unwrap().unwrap();
            (due, series, looks) = (next.due, next.series, looks + 1);
        }
        // Two that were missed, and the one of half a second ago.
        assert!(ran <= 3 && looks <= 4, "{ran} runs, {looks} looks");
    }

    #[test]
    fn a_clock_that_is_set_back_plans_no_instant_again() {
        let series = Series::new("cron 0 9 * * * in UTC".into(), Missed::once());
        let next = next(&series, at("05T09:00:00"), at("03T00:00:00")).unwrap().unwrap();
        assert_eq!(next.due, at("06T09:00:00"));
    }

    #[test]
    fn a_missed_run_whose_process_ends_in_the_middle_of_it_is_one_of_those_that_may_run() {
        let mut series = Series::new("cron 0 9 * * * in UTC".into(), Missed::each(2));
        let now = at("09T00:00:00");
        let again = |series: &Series| occurs_again(series, at("02T09:00:00"));
        assert_eq!(again(&series), series, "it was on time, as far as is known");
        series.catching_up = Some((now.as_millisecond(), 2));
        series = again(&again(&again(&series)));
        assert_eq!(series.catching_up, Some((now.as_millisecond(), 0)), "however often");
        assert_eq!(next(&series, at("02T09:00:00"), now).unwrap().unwrap().due, at("09T09:00:00"));
    }

    #[test]
    fn a_plan_of_a_wrong_clock_or_of_other_zone_data_is_made_anew() {
        let series = Series::new("cron 0 9 * * * in UTC".into(), Missed::once());
        let now = at("03T12:00:00");
        let planned = |after: &str| series.clone().planned_after(after.parse().unwrap());
        let due = |after: &str, due: &str| {
            anew(&planned(after), due.parse().unwrap(), now).unwrap().map(|next| next.due)
        };
        let tomorrow = Some(at("04T09:00:00"));
        assert_eq!(due("2026-06-03T09:00:00Z", "2026-06-04T09:00:00Z"), None, "as it is");
        assert_eq!(due("2029-01-01T09:00:00Z", "2029-01-02T09:00:00Z"), tomorrow, "a clock of 2029");
        assert_eq!(due("2026-06-03T09:00:00Z", "2026-06-04T08:00:00Z"), tomorrow, "other zone data");
        assert_eq!(due("2026-06-03T09:00:00Z", "2026-06-05T09:00:00Z"), tomorrow, "other zone data");
        assert_eq!(due("2026-06-03T14:30:00Z", "2026-06-04T09:00:00Z"), None, "set back by little");
        assert_eq!(due("2026-06-02T09:00:00Z", "2026-06-03T09:30:00Z"), None, "overdue");
        assert_eq!(anew(&series, at("09T00:00:00"), now), Ok(None), "nobody knows");
        let next = anew(&planned("2029-01-01T09:00:00Z"), at("09T00:00:00"), now).unwrap().unwrap();
        assert_eq!(next.series.after(), Some(now));
    }

    #[test]
    fn a_policy_that_was_changed_bounds_what_is_left_of_the_one_before() {
        let mut series = Series::new("cron 0 9 * * * in UTC".into(), Missed::none());
        series.catching_up = Some((at("05T12:00:00").as_millisecond(), 2));
        assert!(!occurs(&series, at("04T09:00:00"), at("05T12:00:00")).0);
        let next = next(&series, at("03T09:00:00"), at("05T12:00:00")).unwrap().unwrap();
        assert_eq!(next.due, at("06T09:00:00"));
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_told() {
        let series = Series::new("whenever".into(), Missed::once());
        assert!(next(&series, at("05T09:00:00"), at("05T09:00:00")).unwrap_err().contains("whenever"));
    }
}
