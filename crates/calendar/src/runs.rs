//! Which run of a rule comes next, by the policy for missed runs, and whether a clock was wrong. Pure: the caller tells the time.
//!
//! Jobs on a wheel go by this, and so do the series of `timingwheel-durable`.

use jiff::{SignedDuration, Timestamp};

use crate::missed::Missed;
use crate::rule::Rule;

/// A run that is late by this counts as missed. A run that is late by less may be about to begin as the clock is read, or
/// the run before it ended a moment ago.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// A clock that is set back by more than this was wrong before, so the instants that ran by it run again. After less,
/// nothing runs twice, except intervals. Cron has the same limit.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// A clock that is set back by up to this makes nothing run twice. Cron expressions, calendar rules and periods
/// are no finer.
const FINEST: SignedDuration = SignedDuration::from_secs(1);

/// While missed runs are made up for: the end of the outage, and how many of its runs may still come.
pub type CatchingUp = Option<(Timestamp, u32)>;

/// The run that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRun {
    /// Its instant.
    pub due: Timestamp,
    /// It is the first instant of the rule after this one.
    pub after: Timestamp,
    /// This run is one of those that may still come.
    pub catching_up: CatchingUp,
}

/// Whether the run of this instant is missed if it begins now.
#[must_use]
pub fn is_late(due: Timestamp, now: Timestamp) -> bool {
    now.duration_since(due) >= LATE
}

/// The run that comes next, where all instants up to `done` have run or were left out. `None` if the rule is over.
pub fn next<R: Rule + ?Sized>(
    rule: &R,
    missed: Missed,
    done: Timestamp,
    catching_up: CatchingUp,
    now: Timestamp,
) -> Option<NextRun> {
    let first = |after, catching_up| Some(NextRun { due: rule.after(after)?, after, catching_up });
    // Passes all runs at once that are too old. A rule by the second may have a year of them.
    let oldest = missed.oldest().map(|oldest| {
        // A run of exactly that age may run.
        let age = oldest.saturating_add(SignedDuration::from_nanos(1));
        now.saturating_sub(age).unwrap_or(Timestamp::MIN)
    });
    let next = first(oldest.map_or(done, |oldest| oldest.max(done)), None)?;
    if !is_late(next.due, now) {
        return Some(next);
    }
    let (until, left) = left_of(missed, next.due, catching_up).unwrap_or((now, missed.up_to()));
    if left > 0 {
        return Some(NextRun { catching_up: Some((until, left)), ..next });
    }
    // Runs after `until` are at most a second ago, or were missed since.
    let next = first(until, None)?;
    match missed.up_to() {
        _ if !is_late(next.due, now) => Some(next),
        0 => first(now, None),
        up_to => Some(NextRun { catching_up: Some((now, up_to)), ..next }),
    }
}

/// Whether the run of this instant, which is about to begin, runs, and how many missed ones may still come after it.
#[must_use]
pub fn begins(missed: Missed, due: Timestamp, catching_up: CatchingUp, now: Timestamp) -> (bool, CatchingUp) {
    if !is_late(due, now) {
        return (true, None);
    }
    if missed.oldest().is_some_and(|oldest| now.duration_since(due) > oldest) {
        return (false, catching_up);
    }
    // It was missed: now, or already at an earlier look.
    let (until, left) = left_of(missed, due, catching_up).unwrap_or((now, missed.up_to()));
    (left > 0, Some((until, left.saturating_sub(1))))
}

/// If this instant was missed: up to when runs were missed, and how many of them may still run. The policy may have changed.
fn left_of(missed: Missed, due: Timestamp, catching_up: CatchingUp) -> CatchingUp {
    let (until, left) = catching_up.filter(|(until, _)| due <= *until)?;
    Some((until, left.min(missed.up_to())))
}

/// Whether a clock that was ahead by so much was wrong, so that the rule begins anew. `run` is an instant of the rule.
///
/// For an interval the limit is at most a period, so that no run is late by more than that.
pub fn begins_anew<R: Rule + ?Sized>(rule: &R, ahead: SignedDuration, run: Option<Timestamp>) -> bool {
    let period = || {
        let run = run.filter(|_| rule.is_interval())?;
        Some(rule.after(run)?.duration_since(run))
    };
    ahead > FINEST && ahead > period().map_or(CORRECTION, |period| period.min(CORRECTION))
}
