//! The next run of a rule, by the policy for missed runs and by a clock that may be set. Pure: the caller tells the time.

use jiff::{SignedDuration, Timestamp};

use super::clock::Reading;
use crate::missed::Missed;
use crate::rule::Rule;

/// A clock that is set back by more than this was wrong before, so the instants that ran by it run again. After less,
/// nothing runs twice, except intervals. Cron has the same limit.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// A run that is late by this counts as missed. A run that is late by less may be about to begin as the clock is read, or
/// the run before it ended a moment ago.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// A clock that is set back by up to this makes nothing run twice. Cron expressions, calendar rules and periods
/// are no finer.
const FINEST: SignedDuration = SignedDuration::from_secs(1);

/// The state of a schedule.
pub(super) struct NextRun {
    rule: Box<dyn Rule + Send>,
    pub(super) missed: Missed,
    pub(super) progress: Progress,
}

/// The part that changes from run to run.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// The last instant that has run. It may lie in the future if the job was reset to run early.
    ran: Option<Timestamp>,
    /// All instants up to here have run or were left out. Never in the future.
    passed: Timestamp,
    /// The instant of the next run, or of the run that is going on.
    pub(super) planned: Option<Timestamp>,
    /// While missed runs are made up for: the end of the outage, and how many of its runs may still come.
    catching_up: Option<(Timestamp, u32)>,
    /// The reading by which it was planned.
    pub(super) reading: Reading,
}

impl NextRun {
    pub(super) fn new(rule: Box<dyn Rule + Send>, reading: Reading) -> Self {
        let progress =
            Progress { ran: None, passed: reading.shown, planned: None, catching_up: None, reading };
        Self { rule, missed: Missed::default(), progress }
    }

    /// This was the last run.
    pub(super) fn has_run_until(&mut self, last: Timestamp) {
        (self.progress.ran, self.progress.passed) = (Some(last), last);
    }

    /// The planned run has ended.
    pub(super) fn has_run(&mut self) {
        let Progress { ran, planned, catching_up, .. } = &mut self.progress;
        if let Some(planned) = planned.take() {
            *ran = Some(planned);
        }
        if let Some((_, left)) = catching_up {
            *left = left.saturating_sub(1);
        }
    }

    /// Whether the planned run, which is about to begin, was missed and does not run.
    pub(super) fn is_left_out(&self, now: Timestamp) -> bool {
        let Progress { planned: Some(planned), catching_up, .. } = self.progress else { return false };
        let age = now.duration_since(planned);
        let is_covered = catching_up.is_some_and(|(until, left)| planned <= until && left > 0);
        age >= LATE
            && (self.missed.oldest().is_some_and(|oldest| age > oldest)
                || (self.missed.up_to() == 0 && !is_covered))
    }

    /// Plans the next run, by the clock. Asked again at the same time it plans the same. If the rule panics, nothing has
    /// changed.
    pub(super) fn plan(&mut self, now: Reading) -> Option<Timestamp> {
        let mut progress = self.progress;
        progress.planned = progress.next(&self.rule, self.missed, now);
        self.progress = progress;
        progress.planned
    }
}

impl Progress {
    /// No instant up to here is to come.
    pub(super) fn done(&self) -> Timestamp {
        self.ran.map_or(self.passed, |ran| ran.max(self.passed))
    }

    fn next(&mut self, rule: &impl Rule, missed: Missed, now: Reading) -> Option<Timestamp> {
        self.follow(rule, now);
        let now = now.shown;
        if let Some(oldest) = missed.oldest() {
            // A run of exactly that age may run.
            let age = oldest.saturating_add(SignedDuration::from_nanos(1));
            let oldest = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
            self.passed = self.passed.max(oldest);
        }
        let mut next = rule.after(self.done())?;
        if let Some((until, 0)) = self.catching_up
            && next <= until
        {
            self.passed = until;
            next = rule.after(self.done())?;
        }
        if now.duration_since(next) < LATE {
            self.catching_up = None;
            return Some(next);
        }
        // It was missed, since the last look or before it.
        if self.catching_up.is_none_or(|(until, _)| next > until) {
            if missed.up_to() == 0 {
                self.catching_up = None;
                self.passed = now;
                return rule.after(self.done());
            }
            self.catching_up = Some((now, missed.up_to()));
        }
        Some(next)
    }

    /// Follows a clock that was set since the last plan. The two clocks tell how far. The last run does not: it may be
    /// long ago, or in the future if the job was reset to run early.
    fn follow(&mut self, rule: &impl Rule, now: Reading) {
        let set_back = -now.set_since(&self.reading);
        (self.reading, self.passed) = (now, self.passed.min(now.shown));
        if set_back > FINEST && set_back > self.correction(rule) {
            (self.passed, self.ran) = (self.done().min(now.shown), None);
        }
        if let Some((until, _)) = &mut self.catching_up {
            *until = now.shown.min(*until);
        }
    }

    /// By how much the clock may be set back before the rule begins anew. For an interval it is at most a period, so
    /// that no run is late by more than that.
    fn correction(&self, rule: &impl Rule) -> SignedDuration {
        let period = || {
            let ran = self.ran.filter(|_| rule.is_interval())?;
            Some(rule.after(ran)?.duration_since(ran))
        };
        period().map_or(CORRECTION, |period| period.min(CORRECTION))
    }
}
