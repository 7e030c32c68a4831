//! When a series is due next: pure, but for being told the time.

use jiff::Timestamp;
use timingwheel_calendar::{Plan, Rule};

use crate::id::timestamp;
use crate::store::{Next, Series};

/// A run whose instant is no longer ago is late, and not missed.
const LATE_MS: i64 = 1_000;

/// What is to be done with an occurrence that comes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It runs, and its series stands like this.
    Run(Series),
    /// It was missed, and does not run.
    Skip(Series),
}

/// Whether the occurrence of this instant runs.
pub(crate) fn occurs(series: &Series, scheduled: Timestamp, now: Timestamp) -> Due {
    let mut series = series.clone();
    let age = now.as_millisecond() - scheduled.as_millisecond();
    if age < LATE_MS {
        series.catching_up = None;
        return Due::Run(series);
    }
    if series.missed.oldest.is_some_and(|oldest| i64::try_from(oldest).is_ok_and(|oldest| age > oldest)) {
        return Due::Skip(series);
    }
    // It was missed, by now or already when it was last looked.
    let is_covered = series.catching_up.is_some_and(|(until, _)| scheduled.as_millisecond() <= until);
    if !is_covered {
        series.catching_up = Some((now.as_millisecond(), series.missed.up_to));
    }
    match &mut series.catching_up {
        Some((_, left)) if *left > 0 => {
            *left -= 1;
            Due::Run(series)
        }
        _ => Due::Skip(series),
    }
}

/// How a series stands whose occurrence runs again, as its process ended in the middle of it: that is one of those that
/// may still run, if it was missed before.
pub(crate) fn occurs_again(series: &Series, scheduled: Timestamp) -> Series {
    let mut series = series.clone();
    if let Some((until, left)) = &mut series.catching_up
        && scheduled.as_millisecond() <= *until
    {
        *left = left.saturating_sub(1);
    }
    series
}

/// The occurrence after this one, which has run or was skipped. `None` if the series is over.
///
/// # Errors
/// If the rule cannot be read.
pub(crate) fn next(series: &Series, scheduled: Timestamp, now: Timestamp) -> Result<Option<Next>, String> {
    let plan: Plan = series.rule.parse().map_err(|error| format!("the rule {:?}: {error}", series.rule))?;
    let mut series = series.clone();
    let now_ms = now.as_millisecond();
    let mut last = scheduled;
    // What would be skipped anyway is passed at once, however many there are: it may be a rule by the second, and a year.
    if let Some(oldest) = series.missed.oldest {
        let first = now_ms.saturating_sub(i64::try_from(oldest).unwrap_or(i64::MAX)).saturating_sub(1);
        last = last.max(timestamp(first));
    }
    let Some(mut due) = plan.after(last) else { return Ok(None) };
    if now_ms - due.as_millisecond() < LATE_MS {
        return Ok(Some(Next { due, series }));
    }
    let (until, left) = match series.catching_up {
        Some((until, left)) if due.as_millisecond() <= until => (until, left),
        _ => (now_ms, series.missed.up_to),
    };
    if left == 0 {
        // Those after `until` are a second ago at the most, or were missed since.
        let Some(after) = plan.after(timestamp(until)) else { return Ok(None) };
        due = after;
        series.catching_up = None;
        if now_ms - due.as_millisecond() >= LATE_MS {
            if series.missed.up_to == 0 {
                return Ok(plan.after(now).map(|due| Next { due, series }));
            }
            series.catching_up = Some((now_ms, series.missed.up_to));
        }
        return Ok(Some(Next { due, series }));
    }
    series.catching_up = Some((until, left));
    Ok(Some(Next { due, series }))
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
            series = match occurs(&series, due, now) {
                Due::Run(series) => {
                    ran.push(due.strftime("%d").to_string());
                    series
                }
                Due::Skip(series) => series,
            };
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
            series = match occurs(&series, due, now) {
                Due::Run(series) => {
                    ran += 1;
                    series
                }
                Due::Skip(series) => series,
            };
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
    fn a_rule_that_cannot_be_read_is_told() {
        let series = Series::new("whenever".into(), Missed::once());
        assert!(next(&series, at("05T09:00:00"), at("05T09:00:00")).unwrap_err().contains("whenever"));
    }
}
