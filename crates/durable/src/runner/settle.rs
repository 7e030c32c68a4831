//! Ends attempts: decides what becomes of each timer, and tells the store.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::maybe_done;
use jiff::Timestamp;
use tokio::time::Instant;

use super::begin::{REMOVED, Suspect, UNREADABLE_RULE};
use super::live::{Attempt, Live, Settling};
use super::{ANSWERS_AT_A_TIME, Command, Outcome, Runner};
use crate::error::{Error, cut, with_causes};
use crate::events::event;
use crate::handler::{Answer, loggable};
use crate::id::{TimerId, later};
use crate::next_run::{self, Next};
use crate::store::{Change, Ended, Near, Put, Series, Settled, Stored, Which};

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
    /// Its handler was not called: it is stored as it was.
    GiveBack(Wait),
    /// Its rule, by today's zone data, has another time.
    Anew,
}

/// Where a timer waits that was given back, before this instance begins it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is armed.
    No,
    /// On the wheel.
    For(Duration),
    /// Among the suspects, which are begun alone.
    Alone,
    /// Among those that wait for a place, or in the store, where a later load finds it.
    Elsewhere,
}

/// If the store refuses how a timer ended, it is buried for a reason that begins like this.
const UNSTORED: &str = "its end cannot be stored: ";

/// Why runs of a series did not happen.
const MISSED: &str = "it was missed";
const ANEW: &str = "it was planned anew";

impl Runner {
    /// A handler has ended.
    pub(super) fn ended(&mut self, id: TimerId, outcome: Outcome, took: Duration) {
        let mut attempt = match self.live.remove(&id) {
            Some(Live::Running { attempt, .. }) => attempt,
            Some(live) => {
                self.live.insert(id, live);
                return;
            }
            None => return,
        };
        self.leave_place(id);
        if !matches!(outcome, Outcome::TooLate) {
            let mut stats = self.shared.stats();
            let of_kind = stats.kinds.entry(attempt.handler.kind).or_default();
            of_kind.took.record(took);
            of_kind.errors += u64::from(!matches!(outcome, Outcome::Answered(Ok(_))));
        }
        let tries = attempt.handler.backoff.most();
        let end = match outcome {
            Outcome::Answered(Ok(Answer::Done)) => End::Done,
            Outcome::Answered(Ok(Answer::Snooze(due))) => {
                // A past time means now. At the occurrence's own instant it would count as that occurrence, and as missed.
                End::Again { due: due.max(self.clocks.wall()), error: None, counts: false }
            }
            Outcome::Answered(Ok(Answer::Bury(reason))) => End::Bury(cut(reason)),
            Outcome::Answered(Ok(Answer::Retry(after))) => {
                if attempt.number() >= tries {
                    End::Bury(format!("attempt {tries} of {tries} asked for another"))
                } else {
                    End::Again { due: later(self.clocks.wall(), after), error: None, counts: true }
                }
            }
            Outcome::Answered(Err(error)) => self.fail(&attempt, error),
            Outcome::Panicked(error) => {
                self.shared.stats().panicked += 1;
                self.fail(&attempt, error)
            }
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
        self.end(Settling { attempt, end, was_called: true, refused_at: None });
    }

    fn fail(&self, attempt: &Attempt, error: String) -> End {
        let (backoff, error) = (&attempt.handler.backoff, cut(error));
        let number = attempt.number();
        if number >= backoff.most() {
            return End::Bury(error);
        }
        End::Again { due: later(self.clocks.wall(), backoff.delay(number)), error: Some(error), counts: true }
    }

    /// An attempt has ended, and the store is to be told.
    pub(super) fn end(&mut self, settling: Settling) {
        let change = self.change(&settling);
        let Stored { timer, attempts, version, .. } = *settling.attempt.stored;
        self.ends.push(Ended { timer, attempt: attempts, version, change });
        self.live.insert(timer.id(), Live::Settling(settling));
    }

    /// How the timer is to stand after this end, as far as this attempt knows the timer.
    fn change(&self, Settling { attempt, end, was_called, .. }: &Settling) -> Change {
        let Stored { timer, ref series, attempts, cancelled: is_cancelled, .. } = *attempt.stored;
        let series = attempt.unreadable.as_ref().or(series.as_ref());
        let put = |timer, counts, error| {
            let attempts = if counts { attempts } else { attempts - 1 };
            Change::Put(Put { timer, series: series.cloned(), attempts, error })
        };
        match end {
            End::Done => self.next(attempt).map_or(Change::Delete, |mut next| {
                next.error = (!was_called).then(|| MISSED.to_owned());
                Change::Put(next)
            }),
            End::Bury(reason) => {
                Change::Bury { reason: reason.clone(), was_called: *was_called, next: self.next(attempt) }
            }
            // It was cancelled: nothing follows.
            End::Again { .. } | End::GiveBack(_) | End::Anew if is_cancelled => Change::Delete,
            End::Again { due, error, counts } => put(Near::new(timer.id(), *due), *counts, error.clone()),
            End::Anew => {
                let anew = self.planned_anew(attempt);
                let anew = anew.map(|put| Put { error: Some(ANEW.to_owned()), ..put });
                anew.map_or_else(|| put(timer, false, None), Change::Put)
            }
            End::GiveBack(_) => put(timer, false, None),
        }
    }

    /// The next occurrence of the series, unless it was cancelled.
    fn next(&self, attempt: &Attempt) -> Option<Put> {
        let Stored { timer, series: Some(series), cancelled: false, .. } = &*attempt.stored else {
            return None;
        };
        let (id, now) = (timer.id(), self.clocks.wall());
        // It was read before the handler was called.
        let next = next_run::next(series, id.first_due(), now).ok().flatten();
        let Some(unreadable) = &attempt.unreadable else {
            return next.map(|next| self.occurrence(attempt, next));
        };
        // An instance that can read the rule plans the run after this one.
        let due = next.map_or_else(|| later(now, UNREADABLE_RULE), |next| next.due);
        let series = unreadable.clone().planned_after(now);
        Some(self.occurrence(attempt, Next { due, series, begins_anew: false }))
    }

    fn planned_anew(&self, attempt: &Attempt) -> Option<Put> {
        let scheduled = attempt.id().first_due();
        let next = next_run::anew(attempt.stored.series.as_ref()?, scheduled, self.clocks.wall());
        Some(self.occurrence(attempt, next.ok()??))
    }

    fn occurrence(&self, attempt: &Attempt, next: Next) -> Put {
        occurrence(attempt.id(), next, |due| {
            self.store.number(self.owner, self.shared.count(), due, &attempt.stored.kind)
        })
    }

    /// Settles ended attempts.
    pub(super) fn settle(&mut self) {
        if self.settling.is_some() || self.ends.is_empty() {
            return;
        }
        let batch = self.ends.next();
        if batch.is_empty() {
            return;
        }
        let settling = self.store.clone().settle(self.owner, batch.clone());
        self.settling = Some((batch, maybe_done(settling)));
    }

    /// The store has answered. [`take_in_settled`](Self::take_in_settled) takes in the answers.
    pub(super) fn settled(&mut self) {
        let Some((batch, mut call)) = self.settling.take() else { return };
        let Some(answer) = Pin::new(&mut call).take_output() else { return };
        match answer {
            Err(error) => {
                let is_transient = error.is_transient();
                match self.ends.failed(batch, is_transient) {
                    Some(ended) if is_transient => self.ends.push(ended),
                    Some(ended) => self.cannot_settle(ended, &error),
                    None => {}
                }
                if is_transient {
                    self.failed(&error);
                } else {
                    self.shared.failed(&error);
                }
            }
            Ok(answers) => {
                self.has_succeeded();
                self.ends.succeeded();
                self.settled = batch.into_iter().zip(answers);
            }
        }
    }

    /// The store refuses this end alone. If it takes other calls meanwhile, the timer is buried. Such ends may have the places of all
    /// handlers, so that there is no other call: then a load is made.
    fn cannot_settle(&mut self, ended: Ended, error: &Error) {
        let Some(Live::Settling(mut settling)) = self.live.remove(&ended.timer.id()) else { return };
        let before = settling.refused_at.replace(self.succeeded);
        let is_culprit = before.is_some_and(|before| before < self.succeeded);
        // A burial too may be refused for its reason.
        let is_last = matches!(&settling.end, End::Bury(reason) if reason.starts_with(UNSTORED));
        if is_culprit && !is_last {
            settling.end = End::Bury(cut(format!("{UNSTORED}{}", with_causes(error))));
            return self.end(settling);
        }
        self.loads_anew |= before.is_some() && !is_last;
        self.live.insert(ended.timer.id(), Live::Settling(settling));
        self.put_off.refused(ended);
    }

    /// Takes in some of the answers. In between, the runner settles more.
    pub(super) fn take_in_settled(&mut self) {
        for _ in 0..ANSWERS_AT_A_TIME {
            let Some((ended, answer)) = self.settled.next() else { return };
            self.has_settled(ended, answer);
        }
    }

    fn has_settled(&mut self, mut ended: Ended, answer: Settled) {
        if answer != Settled::Locked {
            self.put_off.is_free(ended.timer.id());
        }
        // This instance may have joined again since the attempt began.
        let is_of_before = matches!(self.live.get(&ended.timer.id()),
            Some(Live::Settling(Settling { attempt, .. })) if attempt.epoch != self.owner.epoch);
        match answer {
            Settled::Done => self.has_ended(&ended),
            // Nobody has it, or another instance.
            Settled::Gone | Settled::Fenced if is_of_before => self.was_refused(&ended),
            // It ended by a call whose answer was lost, or in a transaction of its handler.
            Settled::Gone => {
                self.find_next_run(&ended);
                self.heed_finish(&mut ended);
                self.has_ended(&ended);
            }
            Settled::Fenced => {
                self.was_refused(&ended);
                self.lose();
            }
            Settled::Locked => self.put_off.end(ended, self.clocks.wall()),
            Settled::Changed(stored) => self.has_changed(&ended, &stored),
        }
    }

    /// If the handler has ended its attempt in a transaction of its own, the timer is done, whatever the handler answered afterwards.
    fn heed_finish(&mut self, ended: &mut Ended) {
        let Some(Live::Settling(settling)) = self.live.get_mut(&ended.timer.id()) else { return };
        if !settling.attempt.has_finished.load(Ordering::Acquire) {
            return;
        }
        if let End::Again { error: Some(error), .. } | End::Bury(error) = &settling.end {
            let (id, attempt, error) = (ended.timer.id(), ended.attempt, loggable(error));
            event!(warn, %id, attempt, error, "a timer is done by `finish_in`, and its handler failed afterwards");
        }
        (settling.end, ended.change) = (End::Done, Change::Delete);
    }

    /// The handler may have planned the next run of its series, so the store is asked for it.
    fn find_next_run(&self, ended: &Ended) {
        let Some(Live::Settling(Settling { attempt, .. })) = self.live.get(&ended.timer.id()) else { return };
        let Stored { series: Some(_), key: Some(key), .. } = &*attempt.stored else { return };
        let (store, sender, which) = (self.store.clone(), self.sender.clone(), Which::Key(key.clone()));
        tokio::spawn(async move {
            let told = match store.get(which).await {
                Ok(next) => Command::Saved(next.map(|next| next.timer).into_iter().collect()),
                Err(_) => Command::LoadAnew,
            };
            // If nobody hears it, a stop has begun.
            let _ = sender.send(told);
        });
    }

    /// The row was changed since the attempt began: decides again, by the row as it is.
    fn has_changed(&mut self, ended: &Ended, stored: &Stored) {
        let Some(Live::Settling(mut settling)) = self.live.remove(&ended.timer.id()) else { return };
        let began = &mut settling.attempt.stored;
        // With the same rule, the series stands as this attempt left it.
        let rule =
            |series: &Option<Series>| series.as_ref().map(|series| (series.rule.clone(), series.missed));
        if rule(&began.series) != rule(&stored.series) {
            if stored.series.as_ref().is_none_or(|series| next_run::read(&series.rule).is_ok()) {
                began.series.clone_from(&stored.series);
            } else {
                settling.attempt.unreadable.clone_from(&stored.series);
            }
        }
        (began.version, began.cancelled) = (stored.version, stored.cancelled);
        self.end(settling);
    }

    /// The result was refused: the attempt is another owner's.
    fn was_refused(&mut self, ended: &Ended) {
        let id = ended.timer.id();
        if let Some(Live::Settling(_)) = self.live.remove(&id) {
            self.shared.stats().fenced += 1;
            self.unblock(id);
        }
    }

    /// The store has recorded the end.
    fn has_ended(&mut self, ended: &Ended) {
        let id = ended.timer.id();
        let Some(Live::Settling(settling)) = self.live.remove(&id) else { return };
        self.count_and_report(ended, &settling);
        if let Some(put) = ended.change.put() {
            match settling.end {
                End::GiveBack(Wait::Elsewhere) => {}
                End::GiveBack(Wait::Alone) if self.may_begin() => {
                    self.alone.insert(put.timer, Suspect::new(&settling.attempt));
                }
                End::GiveBack(Wait::For(wait)) if self.may_begin() => {
                    self.arm_at(put.timer, Instant::now() + wait);
                }
                _ => self.saved(put.timer),
            }
        }
        self.unblock(id);
    }

    fn count_and_report(&self, ended: &Ended, Settling { attempt, end, was_called, .. }: &Settling) {
        let Stored { timer, kind, key, attempts, .. } = &*attempt.stored;
        let id = timer.id();
        match &ended.change {
            Change::Bury { reason, .. } => {
                let (key, reason) = (key.as_deref(), loggable(reason));
                event!(warn, %id, kind, key, attempt = attempts, reason, "a timer is buried");
            }
            Change::Put(Put { error: Some(error), .. }) if *was_called => {
                let error = loggable(error);
                event!(debug, %id, attempt = attempts, error, "an attempt has failed and is made again");
            }
            Change::Delete if !was_called && *end != End::Done => event!(info, %id, "{REMOVED}"),
            Change::Put(_) | Change::Delete => {}
        }
        let mut stats = self.shared.stats();
        match (&ended.change, end) {
            (Change::Bury { .. }, _) => stats.buried += 1,
            (_, End::Done) => stats.done += 1,
            (_, End::Again { counts: true, .. }) => stats.retried += 1,
            (_, End::Again { .. }) => stats.snoozed += 1,
            (Change::Delete, _) => stats.removed += 1,
            (_, End::Anew) => stats.replanned += 1,
            (_, End::GiveBack(_) | End::Bury(_)) => {}
        }
    }
}

/// An occurrence of a series, with the number that all of them share, or with a new one.
pub(super) fn occurrence(id: TimerId, next: Next, new_number: impl FnOnce(Timestamp) -> u64) -> Put {
    let Next { due, series, begins_anew } = next;
    let number = if begins_anew { new_number(due) } else { id.unique() };
    let timer = Near::from(TimerId::new(due, number));
    Put { timer, series: Some(series), attempts: 0, error: None }
}
