//! Begins timers that are due.

use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::maybe_done;
use jiff::Timestamp;
use tokio::time::Instant;

use super::live::{Attempt, Beginning, Live, Settling};
use super::settle::{End, Wait};
use super::{ANSWERS_AT_A_TIME, ONE_CLOCK_READING, Runner};
use crate::events::event;
use crate::id::TimerId;
use crate::next_run;
use crate::store::{Begun, Near, State, Stored, ToBegin};

/// After so many attempts whose process ended without an answer, a timer is buried.
const MOST_CRASHES: u32 = 20;

/// After so many of them a timer is begun alone, so that one that ends its process harms no other.
const SUSPICIOUS: u32 = 3;

/// How long a new suspect runs before the next one begins, unless it ends before. It runs alone for twice as long after each crash.
const FIRST_ALONE: Duration = Duration::from_secs(1);
/// It is alone for no longer than this, so that one that never ends does not hold up the others for ever.
const LONGEST_ALONE: Duration = Duration::from_secs(3_600);

/// After this the store is asked again for a timer whose rule cannot be read here.
pub(super) const UNREADABLE_RULE: Duration = Duration::from_secs(60);

/// A timer that cannot be begun, as its row is damaged, is asked for again after so long.
const DAMAGED: Duration = Duration::from_secs(60);

/// An event for a timer that was cancelled while it ran.
pub(super) const REMOVED: &str =
    "a timer that was cancelled while it ran is removed, and not attempted again";

/// How many are begun or ended in one call at the most.
pub(super) const BATCH: usize = 10_000;

/// A timer whose process has ended in the middle of several attempts. It waits to be begun alone.
#[derive(Clone, Copy)]
pub(super) struct Suspect {
    kind: &'static str,
    crashes: u32,
}

impl Suspect {
    pub(super) fn new(attempt: &Attempt) -> Self {
        Self { kind: attempt.handler.kind, crashes: attempt.stored.crashes }
    }

    /// How long it runs before the next suspect begins, unless it ends before. So one that is about to be buried has been alone for as
    /// long as it runs, and no other suspect has ended its process meanwhile.
    fn is_alone_for(self) -> Duration {
        let doubled = self.crashes.saturating_sub(SUSPICIOUS).min(31);
        FIRST_ALONE.saturating_mul(1 << doubled).min(LONGEST_ALONE)
    }
}

impl Runner {
    /// Begins timers that are ready, as many as there may be more handlers.
    pub(super) fn begin(&mut self) {
        if self.beginning.is_some() || !self.may_begin() || !self.is_good() {
            return;
        }
        // These go without others. A kind may have been paused since: what has begun of it is given back then.
        let mut nears = self.again.next();
        let kinds = Arc::clone(if nears.is_empty() { &self.wanted } else { &self.kinds });
        let room = self.settings.concurrency.saturating_sub(self.live.len()).min(self.again.count());
        if nears.is_empty()
            && room > 0
            && self.suspect_at().is_some_and(|at| at <= Instant::now())
            && let Some((near, suspect)) = self.next_suspect()
        {
            self.begin_one(near, Some(suspect), &mut nears);
        }
        let most = if nears.is_empty() { room } else { 0 };
        for near in self.with_a_place(most) {
            self.begin_one(near, None, &mut nears);
        }
        while nears.len() < most
            && let Some(near) = self.ready.pop_first()
        {
            self.begin_one(near, None, &mut nears);
        }
        if !nears.is_empty() {
            let ask = ToBegin { timers: nears.clone(), kinds };
            let beginning = self.store.clone().begin(self.owner, ask);
            self.beginning = Some((nears, maybe_done(beginning)));
        }
    }

    fn begin_one(&mut self, near: Near, suspect: Option<Suspect>, nears: &mut Vec<Near>) {
        match self.live.entry(near.id()) {
            // It was moved while its end is on its way, or the notice came late.
            Entry::Occupied(_) => drop(self.behind_live.entry(near.id()).or_default().insert(near)),
            Entry::Vacant(place) => {
                let is_alone = suspect.is_some();
                place.insert(Live::Beginning(Beginning { is_alone, ..Beginning::default() }));
                if let Some(suspect) = suspect {
                    self.suspect = Some((near.id(), Instant::now() + suspect.is_alone_for()));
                }
                nears.push(near);
            }
        }
    }

    /// When the next suspect may begin: when the one before has ended, or has run for a while. `None` if none waits.
    pub(super) fn suspect_at(&self) -> Option<Instant> {
        self.alone.first_key_value()?;
        let runs = self.suspect.filter(|(id, _)| self.live.contains_key(id));
        Some(runs.map_or_else(Instant::now, |(_, until)| until))
    }

    /// Of the suspects whose kinds have a place, the one with the most crashes. Of several it is in turn the earliest and the latest:
    /// the one that began last, and may have ended the process, is the first of them to begin the next time.
    fn next_suspect(&mut self) -> Option<(Near, Suspect)> {
        let waits = || self.alone.iter().filter(|(_, suspect)| self.has_a_place(suspect.kind));
        let most = waits().map(|(_, suspect)| suspect.crashes).max()?;
        let mut equal = waits().filter(|(_, suspect)| suspect.crashes == most).map(|(near, _)| *near);
        let near = if most % 2 == 0 { equal.next_back() } else { equal.next() }?;
        self.alone.remove_entry(&near)
    }

    /// The store has answered. [`take_in_begun`](Self::take_in_begun) takes in the timers that it has begun.
    pub(super) fn begun(&mut self) {
        let Some((nears, mut call)) = self.beginning.take() else { return };
        let Some(answer) = Pin::new(&mut call).take_output() else { return };
        match answer {
            Err(error) => {
                self.failed(&error);
                for near in &nears {
                    if let Some(Live::Beginning(beginning)) = self.live.get_mut(&near.id()) {
                        beginning.may_have_begun = true;
                    }
                }
                match self.again.failed(nears, error.is_transient()) {
                    None => {}
                    Some(near) if error.is_transient() => self.again.push(near),
                    Some(near) => self.put_off.begin(near, DAMAGED),
                }
                if !self.may_begin() {
                    self.forget_what_may_have_begun();
                }
            }
            Ok(answers) => {
                self.has_succeeded();
                self.again.succeeded();
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

    /// The timer has not begun, or no longer belongs to this owner.
    pub(super) fn has_not_begun(&mut self, id: TimerId) {
        self.leave_place(id);
        self.live.remove(&id);
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
        let came = self.came_up_first(id, wall);
        if answer == Begun::Locked {
            return self.put_off_begin(near, came);
        }
        let came = self.put_off.is_free(id).map_or(came, |since| since.min(came));
        let stored = match answer {
            Begun::Yours(stored) => stored,
            Begun::Gone => return self.has_not_begun(id),
            Begun::Cancelled => {
                self.shared.stats().removed += 1;
                event!(info, %id, "{REMOVED}");
                return self.has_not_begun(id);
            }
            Begun::Locked | Begun::Lost => {
                self.comes_up_again(id, came);
                self.has_not_begun(id);
                return self.lose();
            }
        };
        // The answer may be to a former owner of this instance.
        let is_mine = matches!(stored.state, State::Begun { epoch, .. } if epoch == self.owner.epoch);
        let attempt = self.attempt(stored).filter(|_| is_mine);
        let Some(attempt) = attempt else {
            self.comes_up_again(id, came);
            return self.has_not_begun(id);
        };
        self.come_up(attempt, wall, came);
    }

    /// `None` never happens: only kinds with a handler are loaded.
    fn attempt(&self, stored: Box<Stored>) -> Option<Attempt> {
        let handler = self.handlers.get(stored.kind.as_str())?.clone();
        Some(Attempt {
            stored,
            epoch: self.owner.epoch,
            series_before: None,
            unreadable: None,
            handler,
            has_finished: Arc::default(),
        })
    }

    /// The timer has begun: calls its handler, unless there is a reason not to. It came up at `came` first: a run is not missed
    /// because its row was locked, or because it waited for a place.
    fn come_up(&mut self, mut attempt: Attempt, wall: Timestamp, came: Timestamp) {
        let (id, crashes) = (attempt.id(), attempt.stored.crashes);
        // Others may have it by now, the clock was set back, its kind was paused, or it was cancelled since it began.
        let is_early = attempt.stored.timer.due() > wall;
        let is_paused = !self.wanted.contains(&attempt.stored.kind);
        if self.stopping.is_some() || !self.is_good() || is_early || is_paused || attempt.stored.cancelled {
            return self.give_back(attempt);
        }
        if crashes >= MOST_CRASHES {
            let reason = format!("its process ended during {crashes} attempts, without an answer");
            return self.end_uncalled(attempt, End::Bury(reason));
        }
        // Nothing is called before the store has all suspects back. So a timer that ends its process does so alone.
        if crashes >= SUSPICIOUS && !self.beginning_of(id).is_alone {
            return self.give_back_for(attempt, Wait::Alone);
        }
        if let Some(series) = &attempt.stored.series
            && let Err(error) = next_run::read(&series.rule)
        {
            self.note_unreadable(&attempt.stored, error, wall);
            self.hand_over(&attempt.stored.kind);
            return self.give_back_for(attempt, Wait::For(UNREADABLE_RULE));
        }
        let Some(came) = self.take_place(&attempt, came) else {
            if crashes >= SUSPICIOUS {
                self.comes_up_again(id, came);
                return self.give_back_for(attempt, Wait::Alone);
            }
            self.wait_for_a_place(&attempt, came);
            return self.give_back_for(attempt, Wait::Elsewhere);
        };
        if crashes >= SUSPICIOUS {
            // The answer may have taken long.
            self.suspect = Some((id, Instant::now() + Suspect::new(&attempt).is_alone_for()));
        }
        // A later attempt is made however late it is, and so is one that was snoozed or moved.
        let (scheduled, number) = (id.first_due(), attempt.stored.attempts);
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
            let (runs, stands) = if number == 1 {
                next_run::occurs(&series, scheduled, came)
            } else {
                (true, next_run::occurs_again(&series, scheduled))
            };
            attempt.stored.series = Some(stands);
            attempt.series_before = Some(series);
            if !runs {
                self.shared.stats().skipped += 1;
                return self.end_uncalled(attempt, End::Done);
            }
        }
        self.start(attempt, wall);
    }

    /// Stores the timer as it was before it began.
    pub(super) fn give_back(&mut self, attempt: Attempt) {
        self.give_back_for(attempt, Wait::No);
    }

    fn give_back_for(&mut self, attempt: Attempt, wait: Wait) {
        if let Some(stopping) = &mut self.stopping {
            stopping.stopped.given_back += 1;
        }
        self.end_uncalled(attempt, End::GiveBack(wait));
    }

    /// An attempt has ended without its handler.
    fn end_uncalled(&mut self, attempt: Attempt, end: End) {
        self.leave_place(attempt.id());
        self.end(Settling { attempt, end, was_called: false, refused_at: None });
    }
}
