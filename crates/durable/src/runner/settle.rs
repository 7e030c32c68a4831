//! What becomes of a timer when its handler has ended.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::maybe_done;
use jiff::{SignedDuration, Timestamp};

use super::live::{Attempt, Live};
use super::{ANSWERS_AT_A_TIME, Outcome, Runner, TookBack};
use crate::handler::Answer;
use crate::id::TimerId;
use crate::next_run;
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

/// The beginning of the reason for which a timer is buried whose payload does not fit its type.
const UNREADABLE: &str = "its payload cannot be read";

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Runner {
    /// A handler has ended.
    pub(super) fn ended(&mut self, id: TimerId, outcome: Outcome) {
        let attempt = match self.live.remove(&id) {
            Some(Live::Running { attempt }) => attempt,
            Some(live) => {
                self.live.insert(id, live);
                return;
            }
            None => return,
        };
        let tries = attempt.handler.backoff.most();
        let end = match outcome {
            Outcome::Answered(Ok(Answer::Done)) => self.done(&attempt),
            Outcome::Answered(Ok(Answer::Snooze(due))) => {
                // In the past it is at once: at the instant of an occurrence it would be that again, and missed.
                End::Again { due: due.max(self.clocks.wall()), error: None, counts: false }
            }
            Outcome::Answered(Ok(Answer::Bury(reason))) => self.bury(&attempt, reason),
            Outcome::Answered(Ok(Answer::Retry(after))) => {
                if attempt.number >= tries {
                    let reason = format!("attempt {tries} of {tries} asked for another");
                    self.bury(&attempt, reason)
                } else {
                    End::Again { due: later(self.clocks.wall(), after), error: None, counts: true }
                }
            }
            Outcome::Answered(Err(error)) => self.fail(&attempt, error),
            Outcome::Panicked(message) => {
                self.shared.stats().panicked += 1;
                self.fail(&attempt, format!("panicked: {message}"))
            }
            Outcome::Unreadable(error) => self.bury(&attempt, format!("{UNREADABLE}: {error}")),
            // Its series is as it was: this run has not been.
            Outcome::TooLate => return self.give_back(Attempt { series: None, ..attempt }),
            // Aborted by `stop`: it is given back when the owner leaves.
            Outcome::Dropped if self.stopping.is_some() => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.stopped.aborted += 1;
                }
                return;
            }
            // As by a panic whose message panics as it is dropped.
            Outcome::Dropped => self.fail(&attempt, "its task ended first".to_owned()),
        };
        if let Some(stopping) = &mut self.stopping {
            stopping.stopped.finished += 1;
        }
        self.end_called(attempt, end);
    }

    fn fail(&mut self, attempt: &Attempt, error: String) -> End {
        let backoff = &attempt.handler.backoff;
        if attempt.number >= backoff.most() {
            return self.bury(attempt, error);
        }
        let due = later(self.clocks.wall(), backoff.delay(attempt.number));
        End::Again { due, error: Some(error), counts: true }
    }

    pub(super) fn bury(&mut self, attempt: &Attempt, reason: String) -> End {
        match self.done(attempt) {
            End::Done { next } => End::Bury { reason, next },
            End::Bury { reason: why, next } => {
                End::Bury { reason: format!("{reason}; its series cannot go on: {why}"), next }
            }
            other => other,
        }
    }

    /// It is done, and its series goes on.
    pub(super) fn done(&self, attempt: &Attempt) -> End {
        let Some(series) = &attempt.series else { return End::Done { next: None } };
        match next_run::next(series, attempt.timer.id().first_due(), self.clocks.wall()) {
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
        self.settling = Some((batch, self.owner, maybe_done(settling)));
    }

    /// The store has answered. [`take_in_settled`](Self::take_in_settled) takes in what it has settled.
    pub(super) fn settled(&mut self) {
        let Some((batch, owner, mut call)) = self.settling.take() else { return };
        let Some(answer) = Pin::new(&mut call).take_output() else { return };
        match answer {
            Err(error) => {
                self.failed(&error);
                // A load tells an owner whether its call was heard, and nothing of the owner that it was before.
                if owner == self.owner && !self.joins() {
                    self.unsure.extend(batch.iter().map(|ended| ended.timer.id()));
                }
                self.ends.extend(batch);
            }
            Ok(answers) => {
                self.succeeded();
                self.settled = batch.into_iter().zip(answers);
            }
        }
    }

    /// Takes in some of what is settled. In between, the runner tells the store what else has ended.
    pub(super) fn take_in_settled(&mut self) {
        for _ in 0..ANSWERS_AT_A_TIME {
            let Some((ended, answer)) = self.settled.next() else { return };
            self.has_settled(ended, answer);
        }
    }

    fn has_settled(&mut self, ended: Ended, answer: Settled) {
        let id = ended.timer.id();
        // A call before may have stored it yet, also where this one found it locked.
        let is_told = answer != Settled::Locked;
        let was_unsure = is_told && !self.unsure.is_empty() && self.unsure.remove(&id);
        match answer {
            Settled::Done(next) => self.has_ended(&ended, next, true),
            // Its handler has ended it, in a transaction of its own.
            Settled::Lost if self.was_finished(id) => self.has_ended(&ended, follows(&ended), true),
            // It may have been settled by a call of which the answer was lost, or another owner has followed since. A load
            // tells.
            Settled::Lost if was_unsure && !self.is_lost() => {
                self.is_in_doubt = true;
                self.doubts.push(ended);
            }
            Settled::Lost => self.was_fenced(&ended),
            Settled::Locked => self.put_off_end(ended),
            Settled::Replanned(series) => {
                let Some(Live::Ending { attempt: before, was_called, took, others }) = self.live.remove(&id)
                else {
                    return;
                };
                let attempt = Attempt { series: Some(Box::new(series)), ..before.clone() };
                let end = match (ended.end, self.done(&before)) {
                    // It was done, and only the old rule could not be read.
                    (End::Bury { reason, .. }, End::Bury { reason: why, .. }) if reason == why => {
                        self.done(&attempt)
                    }
                    (End::Bury { reason, .. }, _) => self.bury(&attempt, reason),
                    _ => self.done(&attempt),
                };
                self.end(attempt, end, took);
                if let Some(Live::Ending { was_called: called, others: waiting, .. }) = self.live.get_mut(&id)
                {
                    (*called, *waiting) = (was_called, others);
                }
            }
        }
    }

    fn was_finished(&self, id: TimerId) -> bool {
        matches!(self.live.get(&id), Some(Live::Ending { attempt, .. }) if attempt.is_finished.load(Ordering::Acquire))
    }

    /// The owner is the owner still, so a call that failed has settled this.
    pub(super) fn was_settled_before(&mut self, ended: &Ended) {
        self.has_ended(ended, follows(ended), false);
    }

    /// The result was refused: the attempt is another owner's.
    pub(super) fn was_fenced(&mut self, ended: &Ended) {
        let id = ended.timer.id();
        let Some(Live::Ending { took, others, .. }) = self.live.remove(&id) else { return };
        self.shared.stats().fenced += 1;
        // Whoever has it now, the next load will tell.
        self.is_in_doubt = true;
        took.into_iter().map(|take| *take).chain(others).for_each(|take| take.tell(TookBack::AskAgain));
        self.unblock(id);
    }

    /// The store has an end, and what follows it. Where the call failed that told so, what follows is as it was meant to
    /// be: a cancel may have come before.
    fn has_ended(&mut self, ended: &Ended, next: Option<Near>, is_told: bool) {
        let id = ended.timer.id();
        let Some(Live::Ending { attempt: _, was_called, took, others }) = self.live.remove(&id) else {
            return;
        };
        let was_taken = took.is_some();
        // Something was to follow, and nothing does: a cancel came first. Its caller was told that the timer has begun, and
        // has yet to hear that the timer is gone.
        let mut is_cancelled = next.is_none() && follows(ended).is_some();
        if let Some(take) = took {
            // A move that came after the cancel has moved nothing.
            let is_moved = !is_cancelled && is_told;
            let is_done = is_moved || matches!(take.end, End::Cancelled);
            take.tell(if is_done { TookBack::Yes } else { TookBack::AskAgain });
        }
        for take in others {
            if is_cancelled && !was_called && matches!(take.end, End::Cancelled) {
                is_cancelled = false;
                take.tell(TookBack::Yes);
            } else {
                // The store will answer it.
                take.tell(TookBack::AskAgain);
            }
        }
        if is_cancelled && !was_called {
            if self.shared.cancels() == 0 {
                // Those who are gone ask for nothing.
                self.cancelled.clear();
            } else {
                self.cancelled.insert(id);
            }
        }
        match &ended.end {
            End::Bury { reason, .. } => {
                // What cannot be read is quoted in the reason, and payloads are not logged.
                let reason = if reason.starts_with(UNREADABLE) { UNREADABLE } else { reason };
                self.shared.events.buried(id, ended.attempt, reason);
            }
            End::Again { error: Some(error), .. } => self.shared.events.retried(id, ended.attempt, error),
            End::Done { .. } | End::Again { .. } | End::Cancelled => {}
        }
        if !was_taken {
            let mut stats = self.shared.stats();
            match ended.end {
                End::Done { .. } => stats.done += 1,
                End::Bury { .. } => stats.buried += 1,
                End::Again { counts: true, .. } => stats.retried += 1,
                // What is given back was begun, and not put off.
                End::Again { .. } if was_called => stats.snoozed += 1,
                End::Again { .. } | End::Cancelled => {}
            }
        }
        if let Some(near) = next {
            self.saved(near);
        }
        self.unblock(id);
    }
}
