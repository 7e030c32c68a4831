//! Ends attempts: decides what becomes of each timer, and tells the store.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::maybe_done;
use jiff::{SignedDuration, Timestamp};

use super::live::{Attempt, Ending, Live};
use super::{ANSWERS_AT_A_TIME, Outcome, Runner, TookBack};
use crate::handler::Answer;
use crate::id::TimerId;
use crate::next_run::{self, Next};
use crate::store::{Change, Ended, Near, Put, Series, Settled, Stored};

/// How an attempt ended. What becomes of the timer also depends on its row, which others may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// It is stored again.
    Again {
        due: Timestamp,
        /// Why, if the attempt failed.
        error: Option<String>,
        /// Whether this attempt counts.
        counts: bool,
    },
    /// It is buried, for this reason.
    Bury(String),
    /// It was cancelled before its handler was called.
    Cancelled,
    /// Its rule, by today's zone data, has another time.
    Anew,
}

/// How many ends are settled in one call at the most.
const BATCH: usize = 10_000;

/// If a payload does not fit its type, the reason for the burial begins like this.
const UNREADABLE: &str = "its payload cannot be read at ";
/// In that reason, this stands between the field and what is wrong with it.
const UNREADABLE_WHY: &str = ", because ";

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

impl Runner {
    /// A handler has ended.
    pub(super) fn ended(&mut self, id: TimerId, outcome: Outcome) {
        let mut attempt = match self.live.remove(&id) {
            Some(Live::Running { attempt, .. }) => attempt,
            Some(live) => {
                self.live.insert(id, live);
                return;
            }
            None => return,
        };
        let tries = attempt.handler.backoff.most();
        let end = match outcome {
            Outcome::Answered(Ok(Answer::Done)) => End::Done,
            Outcome::Answered(Ok(Answer::Snooze(due))) => {
                // A past time means now. At the occurrence's own instant it would count as that occurrence, and as missed.
                End::Again { due: due.max(self.clocks.wall()), error: None, counts: false }
            }
            Outcome::Answered(Ok(Answer::Bury(reason))) => End::Bury(reason),
            Outcome::Answered(Ok(Answer::Retry(after))) => {
                if attempt.stored.attempts >= tries {
                    End::Bury(format!("attempt {tries} of {tries} asked for another"))
                } else {
                    End::Again { due: later(self.clocks.wall(), after), error: None, counts: true }
                }
            }
            Outcome::Answered(Err(error)) => self.fail(&attempt, error),
            Outcome::Panicked(message) => {
                self.shared.stats().panicked += 1;
                self.fail(&attempt, format!("panicked: {message}"))
            }
            Outcome::Unreadable(at, error) => End::Bury(format!("{UNREADABLE}{at}{UNREADABLE_WHY}{error}")),
            // Its series stands as before, because this run did not happen.
            Outcome::TooLate => {
                if let Some(series) = attempt.series_before.take() {
                    attempt.stored.series = Some(series);
                }
                return self.give_back(attempt);
            }
            // Aborted by `stop`: it is given back when the owner leaves.
            Outcome::Dropped if self.stopping.is_some() => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.stopped.aborted += 1;
                }
                return;
            }
            // For example by a panic whose message panics when it is dropped.
            Outcome::Dropped => self.fail(&attempt, "its task ended first".to_owned()),
        };
        if let Some(stopping) = &mut self.stopping {
            stopping.stopped.finished += 1;
        }
        self.end(Ending { attempt, end, was_called: true, was_taken: false, takes: Vec::new() });
    }

    fn fail(&self, attempt: &Attempt, error: String) -> End {
        let backoff = &attempt.handler.backoff;
        let number = attempt.stored.attempts;
        if number >= backoff.most() {
            return End::Bury(error);
        }
        End::Again { due: later(self.clocks.wall(), backoff.delay(number)), error: Some(error), counts: true }
    }

    /// An attempt has ended, and the store is to be told.
    pub(super) fn end(&mut self, ending: Ending) {
        let change = self.change(&ending);
        let Stored { timer, attempts, version, .. } = *ending.attempt.stored;
        self.ends.push(Ended { timer, attempt: attempts, version, change });
        self.live.insert(timer.id(), Live::Ending(ending));
    }

    /// How the timer is to stand after this end, as far as this attempt knows the timer.
    fn change(&self, Ending { attempt, end, was_called, .. }: &Ending) -> Change {
        let Stored { timer, ref series, attempts, ending: is_ending, .. } = *attempt.stored;
        let put = |timer, counts, error| {
            let attempts = if counts { attempts } else { attempts - 1 };
            Change::Put(Put { timer, series: series.clone(), attempts, error })
        };
        match end {
            End::Done => match self.next(attempt) {
                Ok(None) => Change::Delete,
                Ok(Some(next)) => Change::Put(next),
                // For example, this machine does not know the zone of the rule. A person has to look at it.
                Err(reason) => Change::Bury { reason, next: None },
            },
            End::Bury(reason) => match self.next(attempt) {
                Ok(next) => Change::Bury { reason: reason.clone(), next },
                Err(why) => {
                    Change::Bury { reason: format!("{reason}; its series cannot go on: {why}"), next: None }
                }
            },
            End::Again { due, error, counts } if !is_ending => {
                put(Near::new(timer.id(), *due), *counts, error.clone())
            }
            // Nothing follows it.
            End::Again { .. } if *was_called => Change::Delete,
            End::Cancelled if is_ending => Change::Delete,
            End::Anew if !is_ending => match self.planned_anew(attempt) {
                Some(next) => Change::Put(next),
                None => put(timer, false, None),
            },
            // It is stored as it was. If it was cancelled, the next cancel or begin deletes it.
            End::Again { .. } | End::Cancelled | End::Anew => put(timer, false, None),
        }
    }

    /// The next occurrence of the series, unless it was cancelled.
    fn next(&self, attempt: &Attempt) -> Result<Option<Put>, String> {
        let Stored { timer, series: Some(series), ending: false, .. } = &*attempt.stored else {
            return Ok(None);
        };
        let id = timer.id();
        let next = next_run::next(series, id.first_due(), self.clocks.wall())?;
        Ok(next.map(|next| occurrence(id, next)))
    }

    fn planned_anew(&self, attempt: &Attempt) -> Option<Put> {
        let id = attempt.id();
        let next = next_run::anew(attempt.stored.series.as_ref()?, id.first_due(), self.clocks.wall());
        Some(occurrence(id, next.ok()??))
    }

    /// Settles ended attempts.
    pub(super) fn settle(&mut self) {
        if self.settling.is_some() || self.ends.is_empty() {
            return;
        }
        if self.has_rejoined {
            self.refuse_those_of_before();
        }
        let batch = if self.ends.len() <= BATCH {
            std::mem::take(&mut self.ends)
        } else {
            self.ends.drain(..BATCH).collect()
        };
        let settling = self.store.clone().settle(self.owner, batch.clone());
        self.settling = Some((batch, maybe_done(settling)));
    }

    /// The attempts of this instance's former owner are lost: nobody has them, or another instance.
    fn refuse_those_of_before(&mut self) {
        for ended in std::mem::take(&mut self.ends) {
            match self.live.get(&ended.timer.id()) {
                Some(Live::Ending(Ending { attempt, .. })) if attempt.epoch != self.owner.epoch => {
                    self.was_refused(&ended);
                }
                _ => self.ends.push(ended),
            }
        }
    }

    /// The store has answered. [`take_in_settled`](Self::take_in_settled) takes in the answers.
    pub(super) fn settled(&mut self) {
        let Some((batch, mut call)) = self.settling.take() else { return };
        let Some(answer) = Pin::new(&mut call).take_output() else { return };
        match answer {
            Err(error) => {
                self.failed(&error);
                self.ends.extend(batch);
            }
            Ok(answers) => {
                self.pause = None;
                self.settled = batch.into_iter().zip(answers);
            }
        }
    }

    /// Takes in some of the answers. In between, the runner settles more.
    pub(super) fn take_in_settled(&mut self) {
        for _ in 0..ANSWERS_AT_A_TIME {
            let Some((ended, answer)) = self.settled.next() else { return };
            self.has_settled(ended, answer);
        }
    }

    fn has_settled(&mut self, ended: Ended, answer: Settled) {
        match answer {
            Settled::Done => self.has_ended(&ended),
            // It ended by a call whose answer was lost, or in a transaction of its handler. Only that handler knows the next
            // run of the series.
            Settled::Gone => {
                self.loads_anew |= ended.change.put().is_some();
                self.has_ended(&ended);
            }
            Settled::Lost => {
                // If this instance has joined again since, it knows.
                let is_news = matches!(self.live.get(&ended.timer.id()),
                    Some(Live::Ending(Ending { attempt, .. })) if attempt.epoch == self.owner.epoch);
                self.was_refused(&ended);
                if is_news {
                    self.lose();
                }
            }
            Settled::Locked => self.put_off.end(ended),
            Settled::Changed(stored) => self.has_changed(&ended, &stored),
        }
    }

    /// The row was changed since the attempt began: decides again, by the row as it is.
    fn has_changed(&mut self, ended: &Ended, stored: &Stored) {
        let Some(Live::Ending(mut ending)) = self.live.remove(&ended.timer.id()) else { return };
        let began = &mut ending.attempt.stored;
        // With the same rule, the series stands as this attempt left it.
        let rule =
            |series: &Option<Series>| series.as_ref().map(|series| (series.rule.clone(), series.missed));
        if rule(&began.series) != rule(&stored.series) {
            began.series.clone_from(&stored.series);
        }
        (began.version, began.ending) = (stored.version, stored.ending);
        self.end(ending);
    }

    /// The result was refused: the attempt is another owner's.
    fn was_refused(&mut self, ended: &Ended) {
        let id = ended.timer.id();
        let Some(Live::Ending(Ending { takes, .. })) = self.live.remove(&id) else { return };
        self.shared.stats().fenced += 1;
        takes.into_iter().for_each(|take| take.tell(TookBack::AskAgain));
        self.unblock(id);
    }

    /// The store has recorded the end.
    fn has_ended(&mut self, ended: &Ended) {
        let (id, change) = (ended.timer.id(), &ended.change);
        let Some(Live::Ending(ending)) = self.live.remove(&id) else { return };
        let Ending { attempt, end, was_called, was_taken, takes } = ending;
        let is_removed = *change == Change::Delete && !was_called;
        if Arc::strong_count(&self.shared.cancels) == 1 {
            self.cancelled.clear();
        } else if is_removed {
            // Another cancel may have been told that it had begun, and has yet to ask for it.
            self.cancelled.insert(id);
        }
        let mut takes = takes.into_iter();
        if was_taken && let Some(take) = takes.next() {
            // A move that came after a cancel has moved nothing.
            let stored = change.put().map(|put| put.timer);
            let is_moved = matches!(&end, End::Again { due, .. } if stored == Some(Near::new(id, *due)));
            take.tell(if is_removed || (is_moved && !attempt.stored.ending) {
                TookBack::Yes
            } else {
                TookBack::AskAgain
            });
        }
        for take in takes {
            let is_gone = is_removed && take.end == End::Cancelled;
            // Otherwise the store answers the caller.
            take.tell(if is_gone { TookBack::Gone } else { TookBack::AskAgain });
        }
        self.count_and_report(ended, &attempt, &end, was_called, was_taken);
        // A timer that was cancelled and given back waits for its next cancel.
        if let Some(put) = change.put().filter(|_| !attempt.stored.ending) {
            self.saved(put.timer);
        }
        self.unblock(id);
    }

    fn count_and_report(
        &self,
        ended: &Ended,
        attempt: &Attempt,
        end: &End,
        was_called: bool,
        was_taken: bool,
    ) {
        match &ended.change {
            Change::Bury { reason, .. } => {
                // The reason may quote the payload, and payloads are not logged.
                let is_unreadable = reason.starts_with(UNREADABLE);
                let told = if is_unreadable { reason.split(UNREADABLE_WHY).next() } else { None };
                let Stored { timer, kind, key, attempts, .. } = &*attempt.stored;
                let reason = told.unwrap_or(reason);
                self.shared.events.buried(timer.id(), kind, key.as_deref(), *attempts, reason);
            }
            Change::Put(Put { error: Some(error), .. }) => {
                self.shared.events.retried(attempt.id(), attempt.stored.attempts, error);
            }
            Change::Put(_) | Change::Delete => {}
        }
        if was_taken {
            return;
        }
        let mut stats = self.shared.stats();
        match (&ended.change, end) {
            (Change::Bury { .. }, _) => stats.buried += 1,
            (_, End::Done) => stats.done += 1,
            (_, End::Again { counts: true, .. }) => stats.retried += 1,
            (_, End::Anew) => stats.replanned += 1,
            // A timer that is given back was not snoozed.
            (_, End::Again { .. }) if was_called => stats.snoozed += 1,
            (_, End::Again { .. } | End::Cancelled | End::Bury(_)) => {}
        }
    }
}

/// An occurrence of a series, with the number that all of them share.
pub(super) fn occurrence(id: TimerId, next: Next) -> Put {
    let Next { due, series } = next;
    let timer = Near::from(TimerId::new(due, id.unique()));
    Put { timer, series: Some(series), attempts: 0, error: None }
}
