//! Which run of a rule comes next: pure, but for being told the time.

use jiff::{SignedDuration, Timestamp};

use super::Missed;
use crate::rule::Rule;

/// A clock that is set back by more than this was wrong before: then what it made run comes again. After less, nothing
/// runs twice. The limit is that of cron.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// A run whose instant is no longer ago is late, and not missed: it may be just about to begin when the clock is looked
/// at, or the run before ended a moment ago.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// Where a schedule stands.
pub(super) struct State {
    rule: Box<dyn Rule + Send>,
    pub(super) missed: Missed,
    pub(super) progress: Progress,
}

/// What changes from run to run.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// All instants up to here have run, or were left out.
    pub(super) last: Timestamp,
    /// The run that is to come, or going on.
    pub(super) planned: Option<Timestamp>,
    /// What was missed up to an instant, of which so many may still run.
    catching_up: Option<(Timestamp, u32)>,
}

impl State {
    pub(super) fn new(rule: Box<dyn Rule + Send>, now: Timestamp) -> Self {
        let progress = Progress { last: now, planned: None, catching_up: None };
        Self { rule, missed: Missed::default(), progress }
    }

    /// The planned run has ended.
    pub(super) fn has_run(&mut self) {
        let Progress { last, planned, catching_up } = &mut self.progress;
        if let Some(planned) = planned.take() {
            *last = planned;
        }
        if let Some((_, left)) = catching_up {
            *left = left.saturating_sub(1);
        }
    }

    /// Plans the next run, by the clock. Asked again at the same time it plans the same.
    pub(super) fn plan(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.progress.planned = self.next(now);
        self.progress.planned
    }

    fn next(&mut self, now: Timestamp) -> Option<Timestamp> {
        let progress = &mut self.progress;
        if progress.last.duration_since(now) > CORRECTION {
            progress.last = now;
        }
        if let Some(oldest) = self.missed.oldest {
            // Such as are just that old may run.
            let age = oldest.saturating_add(SignedDuration::from_nanos(1));
            let oldest = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
            progress.last = progress.last.max(oldest);
        }
        let mut next = self.rule.after(progress.last)?;
        if let Some((until, 0)) = progress.catching_up
            && next <= until
        {
            progress.last = until;
            next = self.rule.after(until)?;
        }
        if now.duration_since(next) < LATE {
            progress.catching_up = None;
            return Some(next);
        }
        // It was missed, by now or already when it was last looked.
        if progress.catching_up.is_none_or(|(until, _)| next > until) {
            if self.missed.up_to == 0 {
                progress.catching_up = None;
                progress.last = now;
                return self.rule.after(now);
            }
            progress.catching_up = Some((now, self.missed.up_to));
        }
        Some(next)
    }
}
