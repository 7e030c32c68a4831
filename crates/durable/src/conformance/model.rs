//! What a store promises, in the plainest way: one list of timers, searched from its beginning.

use jiff::Timestamp;

use crate::id::{Place, TimerId};
use crate::store::{
    Ask, Begun, Buried, Counts, End, Ended, Failure, Loaded, Move, Near, NewTimer, Next, Owner, Page,
    Removal, Saved, Series, Settled, State, Stored, Taken, ToBegin, Which,
};

#[derive(Default)]
pub(super) struct Model {
    pub(super) epoch: u64,
    timers: Vec<Stored>,
}

fn has_begun(timer: &Stored) -> bool {
    matches!(timer.state, State::Begun { .. })
}

fn is_buried(timer: &Stored) -> bool {
    matches!(timer.state, State::Buried(_))
}

fn millis(at: Timestamp) -> i64 {
    Near::new(TimerId::new(at, 0), at).due_ms
}

impl Model {
    fn standing(&mut self, which: &Which) -> Option<usize> {
        self.timers.iter().position(|timer| {
            !is_buried(timer)
                && match which {
                    Which::Id(id) => timer.timer.id == *id,
                    Which::Key(key) => timer.key.as_ref() == Some(key),
                }
        })
    }

    /// The attempt that is under way. One of an earlier owner is over, and the timer is stored again.
    fn running(&mut self, index: usize) -> Option<u32> {
        let timer = &mut self.timers[index];
        match timer.state {
            State::Begun { epoch, attempt } if epoch == self.epoch => return Some(attempt),
            State::Begun { .. } => timer.state = State::Stored,
            State::Stored | State::Buried(_) => {}
        }
        None
    }

    pub(super) fn join(&mut self, owner: Owner) {
        assert!(owner.epoch > self.epoch, "epoch {} after {}", owner.epoch, self.epoch);
        self.epoch = owner.epoch;
    }

    pub(super) fn leave(&mut self, owner: Owner) -> u64 {
        if self.epoch != owner.epoch {
            return 0;
        }
        let mut left = 0;
        self.timers.retain_mut(|timer| {
            if !matches!(timer.state, State::Begun { epoch, .. } if epoch == owner.epoch) {
                return true;
            }
            left += 1;
            timer.state = State::Stored;
            !timer.ending
        });
        // Nobody has this one.
        self.epoch = u64::MAX;
        left
    }

    pub(super) fn save(&mut self, new: NewTimer) -> Saved {
        let NewTimer { id, kind, payload, key, series, replaces } = new;
        let timer = Stored {
            timer: Near::new(id, id.first_due()),
            kind,
            payload,
            key,
            series,
            attempts: 0,
            failures: Vec::new(),
            ending: false,
            state: State::Stored,
        };
        let holder = timer.key.clone().and_then(|key| self.standing(&Which::Key(key)));
        let Some(holder) = holder else {
            self.timers.push(timer);
            return Saved::Stored;
        };
        let id = self.timers[holder].timer.id;
        if !replaces {
            return Saved::KeyTaken(id);
        }
        let old = &self.timers[holder];
        if let (Some(before), Some(after), false) = (&old.series, &timer.series, old.ending)
            && before.rule == after.rule
            && before.missed == after.missed
            && (&old.payload, &old.kind) == (&timer.payload, &timer.kind)
        {
            return Saved::Kept(id);
        }
        let begun = self.running(holder).is_some();
        let old = &mut self.timers[holder];
        if let (Some(_), Some(_), true) = (&old.series, &timer.series, begun) {
            old.kind = timer.kind;
            old.payload = timer.payload;
            old.series = timer.series;
            old.ending = false;
            return Saved::Updated(id);
        }
        if begun {
            return Saved::KeyTaken(id);
        }
        let gone = self.timers.remove(holder).timer;
        self.timers.push(timer);
        Saved::Replaced(gone)
    }

    /// Without the looks ahead and the end, of which a store may choose.
    pub(super) fn check_load(&self, owner: Owner, ask: &Ask, loaded: &Loaded) {
        if self.epoch != owner.epoch {
            assert!(loaded.lost);
            return;
        }
        assert!(!loaded.lost);
        let all = self.listed(false, ask.after);
        let end = loaded.end;
        assert!(loaded.timers.len() <= ask.limit);
        let is_whole = end.due_ms >= Place::last_of(ask.until).due_ms && end.unique == u64::MAX;
        let expected: Vec<Near> = all
            .iter()
            .filter(|timer| timer.timer.place() <= end && timer.timer.due() <= ask.until)
            .filter(|timer| ask.kinds.contains(&timer.kind))
            .filter(|timer| !matches!(timer.state, State::Begun { epoch, .. } if epoch == owner.epoch))
            .map(|timer| timer.timer)
            .collect();
        assert_eq!(loaded.timers, expected);
        let next = all.iter().map(|timer| timer.timer).find(|near| near.place() > end);
        assert_eq!(loaded.next_due, next.map(Near::due));
        // It ends early only because there was too much.
        assert!(is_whole || next.is_some(), "{loaded:?}");
    }

    pub(super) fn begin(&mut self, owner: Owner, ask: &ToBegin) -> Vec<Begun> {
        let nears = &ask.timers;
        let epoch = owner.epoch;
        if self.epoch != epoch {
            return vec![Begun::Lost; nears.len()];
        }
        let begin = |near: &Near| {
            let found = self.timers.iter_mut().find(|timer| timer.timer == *near && !is_buried(timer));
            let Some(timer) = found.filter(|timer| ask.kinds.contains(&timer.kind)) else {
                return Begun::Gone;
            };
            if !matches!(timer.state, State::Begun { epoch: by, .. } if by == epoch) {
                timer.attempts += 1;
            }
            timer.state = State::Begun { epoch, attempt: timer.attempts };
            Begun::Yours(Box::new(timer.clone()))
        };
        nears.iter().map(begin).collect()
    }

    pub(super) fn settle(&mut self, owner: Owner, ended: Ended) -> Settled {
        let Ended { timer: near, attempt, series: planned, end } = ended;
        let state = State::Begun { epoch: owner.epoch, attempt };
        let found = self.timers.iter().position(|timer| timer.timer == near && timer.state == state);
        let Some(index) = found.filter(|_| self.epoch == owner.epoch) else { return Settled::Lost };
        let timer = &mut self.timers[index];
        let next = match &end {
            End::Done { next } | End::Bury { next, .. } => next.clone(),
            End::Again { .. } | End::Cancelled => None,
        };
        let rule =
            |series: &Option<Series>| series.as_ref().map(|series| (series.rule.clone(), series.missed));
        let is_planned = rule(&planned) == rule(&timer.series);
        if let (Some(series), false, false) = (&timer.series, is_planned, timer.ending)
            && !matches!(end, End::Again { .. } | End::Cancelled)
        {
            return Settled::Replanned(series.clone());
        }
        if let End::Again { due, error, counts } = end {
            if timer.ending {
                self.timers.remove(index);
                return Settled::Done(None);
            }
            timer.failures.extend(error.map(|error| Failure { attempt, error }));
            timer.failures = timer.failures.split_off(timer.failures.len().saturating_sub(10));
            timer.attempts = if counts { attempt } else { attempt - 1 };
            timer.timer.due_ms = millis(due);
            timer.state = State::Stored;
            if is_planned {
                timer.series = planned;
            }
            return Settled::Done(Some(timer.timer));
        }
        let mut ended = self.timers.remove(index);
        let follows = if let (Some(Next { due, series }), false) = (next, ended.ending) {
            let mut next = ended.clone();
            next.timer = Near::new(TimerId::new(due, near.id.unique), due);
            next.series = Some(series);
            next.attempts = 0;
            next.failures.clear();
            next.state = State::Stored;
            let near = next.timer;
            self.timers.push(next);
            Some(near)
        } else {
            None
        };
        if let End::Bury { reason, .. } = end {
            ended.failures.push(Failure { attempt, error: reason.clone() });
            ended.failures = ended.failures.split_off(ended.failures.len().saturating_sub(10));
            ended.state = State::Buried(Buried { reason });
            // Where it stood does not matter any more.
            ended.timer = Near::from(ended.timer.id);
            self.timers.push(ended);
        }
        Settled::Done(follows)
    }

    pub(super) fn cancel(&mut self, which: &Which) -> Removal {
        let Some(index) = self.standing(which) else { return Removal::NotFound };
        if let Some(attempt) = self.running(index) {
            let timer = &mut self.timers[index];
            timer.ending = true;
            return Removal::Running(timer.timer.id, attempt);
        }
        Removal::Removed(self.timers.remove(index).timer)
    }

    pub(super) fn reschedule(&mut self, which: &Which, due: Timestamp) -> Move {
        let Some(index) = self.standing(which) else { return Move::NotFound };
        let running = self.running(index);
        let timer = &mut self.timers[index];
        if let Some(attempt) = running {
            return Move::Running(timer.timer.id, attempt);
        }
        let from = timer.timer;
        timer.timer.due_ms = millis(due);
        Move::Moved { from, to: timer.timer }
    }

    pub(super) fn unbury(&mut self, id: TimerId, due: Option<Timestamp>) -> Taken {
        let found = self.timers.iter().position(|timer| is_buried(timer) && timer.timer.id == id);
        let Some(index) = found else { return Taken::NotFound };
        let Some(due) = due else {
            self.timers.remove(index);
            return Taken::Deleted;
        };
        let key = self.timers[index].key.clone();
        if let Some(holder) = key.and_then(|key| self.standing(&Which::Key(key))) {
            return Taken::KeyTaken(self.timers[holder].timer.id);
        }
        let timer = &mut self.timers[index];
        timer.timer.due_ms = millis(due);
        (timer.attempts, timer.state) = (0, State::Stored);
        Taken::Stored(timer.timer)
    }

    fn listed(&self, buried: bool, after: Place) -> Vec<&Stored> {
        let mut listed: Vec<&Stored> =
            self.timers.iter().filter(|timer| is_buried(timer) == buried).collect();
        listed.sort_by_key(|timer| timer.timer.place());
        listed.retain(|timer| timer.timer.place() > after);
        listed
    }

    pub(super) fn list(&self, page: &Page) -> Vec<Stored> {
        let mut listed = self.listed(page.buried, page.after);
        listed.retain(|timer| page.kind.as_ref().is_none_or(|kind| *kind == timer.kind));
        listed.into_iter().take(page.limit).cloned().collect()
    }

    pub(super) fn count(&self) -> Counts {
        let count = |is_counted: &dyn Fn(&Stored) -> bool| {
            self.timers.iter().filter(|timer| is_counted(timer)).count() as u64
        };
        Counts {
            stored: count(&|timer| timer.state == State::Stored),
            begun: count(&has_begun),
            buried: count(&is_buried),
        }
    }

    /// Some timer, to be asked of.
    pub(super) fn any(&self, random: &mut fastrand::Rng) -> Option<&Stored> {
        random.choice(&self.timers)
    }
}
