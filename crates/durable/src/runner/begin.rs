//! Begins timers that are due, and takes them back for a cancel or a move.

use std::collections::hash_map::Entry;
use std::pin::Pin;

use futures::future::maybe_done;
use jiff::Timestamp;
use tokio::time::Instant;

use super::live::{Attempt, Ending, Live};
use super::settle::End;
use super::{ANSWERS_AT_A_TIME, ONE_CLOCK_READING, Runner, TakeBack, TookBack};
use crate::id::TimerId;
use crate::next_run::{self, Due};
use crate::store::{Begun, Near, State, Stored, ToBegin};

/// How many are begun in one call at the most.
const BATCH: usize = 10_000;

impl Runner {
    /// Begins timers that are ready, as many as there may be more handlers.
    pub(super) fn begin(&mut self) {
        if self.beginning.is_some() || !self.may_begin() || !self.is_good() {
            return;
        }
        let room = self.settings.concurrency.saturating_sub(self.live.len()).min(BATCH);
        let mut nears = std::mem::take(&mut self.again);
        let most = nears.len() + room;
        while nears.len() < most
            && let Some(near) = self.ready.pop_first()
        {
            match self.live.entry(near.id()) {
                // It was moved while its end is on its way, or the notice came late.
                Entry::Occupied(_) => drop(self.behind_live.entry(near.id()).or_default().insert(near)),
                Entry::Vacant(place) => {
                    place.insert(Live::Beginning { takes: Vec::new(), may_have_begun: false });
                    nears.push(near);
                }
            }
        }
        if !nears.is_empty() {
            let ask = ToBegin { timers: nears.clone(), kinds: self.kinds.clone() };
            let beginning = self.store.clone().begin(self.owner, ask);
            self.beginning = Some((nears, Instant::now(), maybe_done(beginning)));
        }
    }

    /// The store has answered. [`take_in_begun`](Self::take_in_begun) takes in the timers that it has begun.
    pub(super) fn begun(&mut self) {
        let Some((nears, since, mut call)) = self.beginning.take() else { return };
        let Some(answer) = Pin::new(&mut call).take_output() else { return };
        match answer {
            Err(error) => {
                self.failed(&error);
                for near in &nears {
                    if let Some(Live::Beginning { takes, may_have_begun }) = self.live.get_mut(&near.id()) {
                        *may_have_begun = true;
                        // The store may answer them, or fail.
                        takes.drain(..).for_each(|take| take.tell(TookBack::AskAgain));
                    }
                }
                self.again = nears;
                if !self.may_begin() {
                    self.forget_what_may_have_begun();
                }
            }
            Ok(answers) => {
                self.pause = None;
                self.clocks.begin_took(since.elapsed());
                self.begun = nears.into_iter().zip(answers);
            }
        }
    }

    /// Takes in some of the timers that have begun. In between, the runner settles ended ones and begins more.
    pub(super) fn take_in_begun(&mut self) {
        for _ in 0..ANSWERS_AT_A_TIME / ONE_CLOCK_READING {
            let wall = self.clocks.wall();
            for _ in 0..ONE_CLOCK_READING {
                let Some((near, answer)) = self.begun.next() else { return };
                self.has_begun(near, answer, wall);
            }
        }
    }

    /// The timer has not begun: answers the callers that want it back.
    pub(super) fn reply(&mut self, id: TimerId, told: TookBack) {
        if let Some(Live::Beginning { takes, .. }) = self.live.remove(&id) {
            takes.into_iter().for_each(|take| take.tell(told));
        }
        self.unblock(id);
    }

    /// A timer is no longer live: the notices that waited for it go on.
    pub(super) fn unblock(&mut self, id: TimerId) {
        // There are seldom any, and an empty map would hash the name all the same.
        if self.behind_live.is_empty() {
            return;
        }
        for near in self.behind_live.remove(&id).unwrap_or_default() {
            if self.may_begin() {
                self.arm(near);
            }
        }
    }

    /// The wall clock has shown `wall` just now.
    fn has_begun(&mut self, near: Near, answer: Begun, wall: Timestamp) {
        let id = near.id();
        let stored = match answer {
            Begun::Yours(stored) => stored,
            Begun::Gone => return self.reply(id, TookBack::AskAgain),
            Begun::Locked => return self.put_off_begin(near),
            Begun::Lost => {
                self.reply(id, TookBack::AskAgain);
                return self.lose();
            }
        };
        // The answer is to a former owner of this instance.
        if !matches!(stored.state, State::Begun { epoch, .. } if epoch == self.owner.epoch) {
            return self.reply(id, TookBack::AskAgain);
        }
        let Some(Live::Beginning { takes, .. }) = self.live.remove(&id) else { return };
        let Some(attempt) = self.attempt(stored) else { return };
        if !takes.is_empty() {
            return self.give_up(attempt, takes);
        }
        if self.stopping.is_some() {
            return self.give_back(attempt);
        }
        self.wait(attempt, wall);
    }

    /// Waits for its time, if that has not come.
    fn wait(&mut self, attempt: Attempt, wall: Timestamp) {
        match self.clocks.instant_after(wall, attempt.stored.timer.due_ms) {
            None => self.come_up(attempt, wall),
            // The wall clock was set back. It would take a handler's place all that time.
            Some(at) if self.clocks.is_far(at) => self.give_back(attempt),
            Some(at) => {
                let id = attempt.id();
                let key = self.waits.insert_at(id, at);
                self.live.insert(id, Live::Waiting { attempt, key });
            }
        }
    }

    /// `None` never happens: only kinds with a handler are loaded.
    fn attempt(&self, stored: Box<Stored>) -> Option<Attempt> {
        let handler = self.handlers.get(stored.kind.as_str())?.clone();
        Some(Attempt { stored, epoch: self.owner.epoch, series_before: None, handler })
    }

    /// The time of a timer that has begun may have come.
    pub(super) fn waited(&mut self, id: TimerId) {
        let Some(Live::Waiting { attempt, key: _ }) = self.live.remove(&id) else { return };
        // The wall clock may have been set back meanwhile.
        self.wait(attempt, self.clocks.wall());
    }

    /// Its time has come: calls its handler, unless there is a reason not to.
    fn come_up(&mut self, mut attempt: Attempt, wall: Timestamp) {
        // Others may have it by now.
        if !self.is_good() {
            return self.give_back(attempt);
        }
        let tries = attempt.handler.backoff.most();
        let number = attempt.stored.attempts;
        if number > tries {
            let reason = format!("attempt {tries} of {tries} did not end: its process ended first");
            return self.end_uncalled(attempt, End::Bury(reason));
        }
        // A later attempt is made however late it is, and so is one that was snoozed or moved.
        let scheduled = attempt.id().first_due();
        if attempt.stored.timer.due() == scheduled
            && let Some(series) = attempt.stored.series.take()
        {
            // The zone's clocks may change otherwise than was known when this was planned.
            if number == 1
                && let Ok(Some(next)) = next_run::anew(&series, scheduled, wall)
                && next.due > wall
            {
                attempt.stored.series = Some(series);
                return self.end_uncalled(attempt, End::Anew);
            }
            let due = if number == 1 {
                next_run::occurs(&series, scheduled, wall)
            } else {
                Due::Run(next_run::occurs_again(&series, scheduled))
            };
            let (Due::Run(stands) | Due::Skip(stands)) = &due;
            attempt.stored.series = Some(stands.clone());
            attempt.series_before = Some(series);
            if let Due::Skip(_) = due {
                self.shared.stats().skipped += 1;
                return self.end_uncalled(attempt, End::Done);
            }
        }
        self.start(attempt, wall);
    }

    /// A cancel or a move came after `begin`.
    pub(super) fn take_back(&mut self, id: TimerId, take: TakeBack) {
        match self.live.get_mut(&id) {
            Some(Live::Beginning { takes, .. }) => takes.push(take),
            Some(Live::Waiting { .. }) => {
                if let Some(Live::Waiting { attempt, key }) = self.live.remove(&id) {
                    self.waits.try_remove(&key);
                    self.give_up(attempt, vec![take]);
                }
            }
            // When the store has that end, it knows.
            Some(Live::Ending(ending)) if !ending.was_called => ending.takes.push(take),
            Some(Live::Running { .. } | Live::Ending(_)) => take.tell(TookBack::Runs),
            None => {
                let is_cancelled = matches!(take.end, End::Cancelled) && self.cancelled.contains(&id);
                take.tell(if is_cancelled { TookBack::Gone } else { TookBack::Unknown });
            }
        }
    }

    /// The first of these callers, who are one at least, takes the timer back. The others came later.
    fn give_up(&mut self, mut attempt: Attempt, takes: Vec<TakeBack>) {
        self.shared.stats().taken_back += 1;
        let end = takes[0].end.clone();
        let stored = &mut attempt.stored;
        if let End::Cancelled = end
            && !stored.ending
        {
            // This is how the cancel has left the row. If it was changed again, the store answers so.
            (stored.ending, stored.version) = (true, stored.version.wrapping_add(1));
        }
        self.end(Ending { attempt, end, was_called: false, was_taken: true, takes });
    }

    /// Stores the timer as it was before it began.
    pub(super) fn give_back(&mut self, attempt: Attempt) {
        if let Some(stopping) = &mut self.stopping {
            stopping.stopped.given_back += 1;
        }
        let end = End::Again { due: attempt.stored.timer.due(), error: None, counts: false };
        self.end_uncalled(attempt, end);
    }

    /// An attempt has ended without its handler.
    fn end_uncalled(&mut self, attempt: Attempt, end: End) {
        self.end(Ending { attempt, end, was_called: false, was_taken: false, takes: Vec::new() });
    }

    /// The owner is lost: forgets attempts whose handlers were not called.
    pub(super) fn forget_what_waits(&mut self) {
        self.waits.clear();
        self.live.retain(|_, live| !matches!(live, Live::Waiting { .. }));
    }
}
