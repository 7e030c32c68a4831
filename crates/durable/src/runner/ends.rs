//! What becomes of a timer when its handler has ended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::live::{Attempt, Live};
use super::{Outcome, Runner, TookBack};
use crate::error::Error;
use crate::handler::Answer;
use crate::id::TimerId;
use crate::plan;
use crate::store::{End, Ended, Near, Settled};

/// What is stored because of an end, unless it was cancelled meanwhile: then `begin` finds it gone.
fn follows(ended: &Ended) -> Option<Near> {
    let id = ended.timer.id();
    match &ended.end {
        End::Again { due, .. } => Some(Near::new(id, *due)),
        End::Done { next } | End::Bury { next, .. } => {
            next.as_ref().map(|next| TimerId::new(next.due, id.unique()).into())
        }
        End::Cancelled => None,
    }
}

/// How many ends are settled in one call at the most.
const BATCH: usize = 10_000;

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Runner {
    /// A handler has ended.
    pub(super) fn ended(&mut self, id: TimerId, outcome: Outcome) {
        let attempt = match self.live.remove(&id) {
            Some(Live::Running { attempt, abort: _ }) => attempt,
            Some(live) => {
                self.live.insert(id, live);
                return;
            }
            None => return,
        };
        let tries = attempt.handler.backoff.most();
        let end = match outcome {
            Outcome::Answered(Ok(Answer::Done)) => self.done(&attempt),
            Outcome::Answered(Ok(Answer::Snooze(due))) => End::Again { due, error: None, counts: false },
            Outcome::Answered(Ok(Answer::Bury(reason))) => self.bury(&attempt, reason),
            Outcome::Answered(Ok(Answer::Retry(after))) => {
                if attempt.number >= tries {
                    let reason = format!("attempt {tries} of {tries} asked for another");
                    self.bury(&attempt, reason)
                } else {
                    End::Again { due: later(self.times.wall(), after), error: None, counts: true }
                }
            }
            Outcome::Answered(Err(error)) => self.fail(&attempt, error.to_string()),
            Outcome::Panicked(message) => {
                self.shared.stats().panicked += 1;
                self.fail(&attempt, format!("panicked: {message}"))
            }
            Outcome::Unreadable(error) => self.bury(&attempt, format!("its payload cannot be read: {error}")),
            // Aborted by `stop`, or with the runtime: it is given back when the owner leaves.
            Outcome::Dropped => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.stopped.aborted += 1;
                }
                return;
            }
        };
        if let Some(stopping) = &mut self.stopping {
            stopping.stopped.finished += 1;
        }
        self.end(attempt, end, None);
    }

    fn fail(&mut self, attempt: &Attempt, error: String) -> End {
        let backoff = &attempt.handler.backoff;
        if attempt.number >= backoff.most() {
            return self.bury(attempt, error);
        }
        let due = later(self.times.wall(), backoff.delay(attempt.number));
        End::Again { due, error: Some(error), counts: true }
    }

    pub(super) fn bury(&mut self, attempt: &Attempt, reason: String) -> End {
        match self.done(attempt) {
            End::Done { next } => End::Bury { reason, next },
            // Its series cannot go on.
            other => other,
        }
    }

    /// It is done, and its series goes on.
    pub(super) fn done(&self, attempt: &Attempt) -> End {
        let Some(series) = &attempt.series else { return End::Done { next: None } };
        match plan::next(series, attempt.timer.id().first_due(), self.times.wall()) {
            Ok(next) => End::Done { next },
            // As where the zone of the rule is not to be had here. A person has to look at it.
            Err(reason) => End::Bury { reason, next: None },
        }
    }

    /// Settles what has ended.
    pub(super) fn settle(&mut self) {
        if self.settling.is_some() || self.ends.is_empty() {
            return;
        }
        let batch = if self.ends.len() <= BATCH {
            std::mem::take(&mut self.ends)
        } else {
            self.ends.drain(..BATCH).collect()
        };
        let settling = self.store.clone().settle(self.owner, batch.clone());
        self.settling = Some((batch, settling));
    }

    pub(super) fn settled(&mut self, answer: Result<Vec<Settled>, Error>) {
        let Some((batch, _)) = self.settling.take() else { return };
        match answer {
            Err(error) => {
                self.failed(&error);
                self.unsure.extend(batch.iter().map(|ended| ended.timer.id()));
                self.ends.extend(batch);
            }
            Ok(answers) => {
                self.succeeded();
                for (ended, answer) in batch.into_iter().zip(answers) {
                    self.has_settled(ended, answer);
                }
            }
        }
    }

    fn has_settled(&mut self, ended: Ended, answer: Settled) {
        let id = ended.timer.id();
        let was_unsure = self.unsure.remove(&id);
        let Some(Live::Ending { attempt, took, others }) = self.live.remove(&id) else { return };
        // The store will answer them.
        others.into_iter().for_each(|take| take.tell(TookBack::AskAgain));
        let next = match answer {
            Settled::Done(next) => next,
            // It may have been settled by a call of which the answer was lost.
            Settled::Lost if was_unsure => follows(&ended),
            // Or by its handler.
            Settled::Lost if attempt.is_finished.load(Ordering::Acquire) => follows(&ended),
            Settled::Lost => {
                self.shared.stats().fenced += 1;
                if let Some(take) = took {
                    take.tell(TookBack::AskAgain);
                }
                // Whoever has it now, the next load will tell.
                self.is_in_doubt = true;
                return self.unblock(id);
            }
            Settled::Replanned(series) => {
                let attempt = Attempt { series: Some(Box::new(series)), ..attempt };
                let end = match ended.end {
                    End::Bury { reason, .. } => self.bury(&attempt, reason),
                    _ => self.done(&attempt),
                };
                return self.end(attempt, end, took);
            }
        };
        if let Some(take) = took {
            // A move of what was cancelled in between has removed it.
            let was_moved = matches!(take.end, End::Again { .. }) && next.is_none();
            take.tell(if was_moved { TookBack::AskAgain } else { TookBack::Yes });
        } else {
            let mut stats = self.shared.stats();
            match ended.end {
                End::Done { .. } => stats.done += 1,
                End::Bury { .. } => stats.buried += 1,
                End::Again { counts: true, .. } => stats.retried += 1,
                // What is given back was begun, and not put off.
                End::Again { .. } if self.stopping.is_none() => stats.snoozed += 1,
                End::Again { .. } | End::Cancelled => {}
            }
        }
        if let Some(near) = next {
            self.saved(near);
        }
        self.unblock(id);
    }
}
