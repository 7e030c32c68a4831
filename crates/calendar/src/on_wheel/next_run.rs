//! Which run of a rule comes next: pure, but for being told the time.

use jiff::{SignedDuration, Timestamp};

use super::clock::Reading;
use crate::missed::Missed;
use crate::rule::Rule;

/// A clock that is set back by more than this was wrong before: then what it made run comes again. After less, nothing
/// runs twice, but for intervals. The limit is that of cron.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// A run whose instant is no longer ago is late, and not missed: it may be just about to begin when the clock is looked
/// at, or the run before ended a moment ago.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// No rule has runs closer together, so a clock that is set back by less lets nothing run twice.
const FINEST: SignedDuration = SignedDuration::from_secs(1);

/// Where a schedule stands.
pub(super) struct NextRun {
    rule: Box<dyn Rule + Send>,
    pub(super) missed: Missed,
    pub(super) progress: Progress,
}

/// What changes from run to run.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// The last instant that has run. It may be to come, of a job that was reset to run early.
    ran: Option<Timestamp>,
    /// All instants up to here were left out. It is never to come: those that the clock has yet to show have not passed.
    passed: Timestamp,
    /// The run that is to come, or going on.
    pub(super) planned: Option<Timestamp>,
    /// What was missed up to an instant, of which so many may still run.
    catching_up: Option<(Timestamp, u32)>,
    /// By what it was planned.
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
            // Such as are just that old may run.
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
        // It was missed, by now or already when it was last looked.
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

    /// Takes note of how far the clock was set since the last plan. How far the last run is from now would not tell: it
    /// may have been reset to run early, or be long ago.
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

    /// By how much the clock may be set back before the rule begins anew. An interval that has to wait for longer than it
    /// does anyway goes by the new time at once.
    fn correction(&self, rule: &impl Rule) -> SignedDuration {
        let period = || {
            let ran = self.ran.filter(|_| rule.is_interval())?;
            Some(rule.after(ran)?.duration_since(ran))
        };
        period().map_or(CORRECTION, |period| period.min(CORRECTION))
    }
}
