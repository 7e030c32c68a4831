//! The next run of a rule, by the policy for missed runs and by a clock that may be set. Pure: the caller tells the time.

use jiff::Timestamp;

use super::clock::Reading;
use crate::missed::Missed;
use crate::rule::Rule;
use crate::runs::{self, CatchingUp};

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
    catching_up: CatchingUp,
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
        let Progress { planned, catching_up, .. } = self.progress;
        planned.is_some_and(|planned| !runs::begins(self.missed, planned, catching_up, now).0)
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
        let next = runs::next(rule, missed, self.done(), self.catching_up, now.shown)?;
        if next.after > self.done() {
            self.passed = next.after;
        }
        self.catching_up = next.catching_up;
        Some(next.due)
    }

    /// Follows a clock that was set since the last plan. The two clocks tell how far. The last run does not: it may be
    /// long ago, or in the future if the job was reset to run early.
    fn follow(&mut self, rule: &impl Rule, now: Reading) {
        let set_back = -now.set_since(&self.reading);
        (self.reading, self.passed) = (now, self.passed.min(now.shown));
        if runs::begins_anew(rule, set_back, self.ran) {
            (self.passed, self.ran) = (self.done().min(now.shown), None);
        }
        if let Some((until, _)) = &mut self.catching_up {
            *until = now.shown.min(*until);
        }
    }
}
