//! A store in the plainest way: one list of timers, searched from its beginning.

use jiff::Timestamp;

use timingwheel_durable::store::{
    Ask, Begun, Buried, Change, Counts, Ended, Failure, Loaded, Move, Near, NewTimer, Owner, Page, Put,
    Removal, Saved, Settled, State, Stored, Taken, ToBegin, Which,
};
use timingwheel_durable::{Place, TimerId};

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) epoch: u64,
    timers: Vec<Stored>,
}

fn has_begun(timer: &Stored) -> bool {
    matches!(timer.state, State::Begun { .. })
}

/// Whether this owner runs it.
fn is_of(timer: &Stored, owner: u64) -> bool {
    matches!(timer.state, State::Begun { epoch, .. } if epoch == owner)
}

fn is_buried(timer: &Stored) -> bool {
    matches!(timer.state, State::Buried(_))
}

/// The last ten errors.
fn note(timer: &mut Stored, attempt: u32, error: Option<String>) {
    timer.failures.extend(error.map(|error| Failure { attempt, error, at: None }));
    timer.failures = timer.failures.split_off(timer.failures.len().saturating_sub(10));
}

/// An attempt of an earlier owner has ended without an answer.
fn crash(timer: &mut Stored) {
    timer.crashes += 1;
    note(timer, timer.attempts, Some("its process ended before it answered".into()));
    timer.state = State::Stored;
}

impl Model {
    fn standing(&self, which: &Which) -> Option<usize> {
        self.timers.iter().position(|timer| {
            !is_buried(timer)
                && match which {
                    Which::Id(id) => timer.timer.id() == *id,
                    Which::Key(key) => timer.key.as_ref() == Some(key),
                }
        })
    }

    /// The attempt that is under way. One of an earlier owner is over, and the timer is stored again.
    fn running(&mut self, index: usize) -> Option<u32> {
        let timer = &mut self.timers[index];
        match timer.state {
            State::Begun { epoch, attempt } if epoch == self.epoch => return Some(attempt),
            State::Begun { .. } => crash(timer),
            _ => {}
        }
        None
    }

    pub(crate) fn join(&mut self, owner: Owner) {
        assert!(owner.epoch > self.epoch, "epoch {} after {}", owner.epoch, self.epoch);
        self.epoch = owner.epoch;
    }

    pub(crate) fn leave(&mut self, owner: Owner) -> u64 {
        if self.epoch != owner.epoch {
            return 0;
        }
        let mut left = 0;
        self.timers.retain_mut(|timer| {
            if !is_of(timer, owner.epoch) {
                return true;
            }
            left += 1;
            crash(timer);
            !timer.cancelled
        });
        // Nobody has this one.
        self.epoch = u64::MAX;
        left
    }

    pub(crate) fn save(&mut self, new: NewTimer) -> Saved {
        let (id, replaces, is_over) = (new.id, new.replaces, new.is_over);
        let timer = Stored::from(new);
        let epoch = self.epoch;
        self.timers.retain(|other| {
            let is_cancelled = other.cancelled && !is_of(other, epoch);
            !(is_cancelled && other.key.is_some() && other.key == timer.key)
        });
        let holder = timer.key.clone().and_then(|key| self.standing(&Which::Key(key)));
        let Some(holder) = holder else {
            if is_over {
                return Saved::Over { dropped: None };
            }
            self.timers.push(timer);
            return Saved::Stored(id);
        };
        let old = &self.timers[holder];
        let is_plain = old.series.is_none() && !old.cancelled;
        if !replaces || (timer.series.is_some() && is_plain) {
            return Saved::KeyTaken(old.timer.id());
        }
        let same = match (&old.series, &timer.series) {
            (Some(before), Some(after)) if before.rule == after.rule && !old.cancelled => Some(
                before.missed == after.missed && (&old.payload, &old.kind) == (&timer.payload, &timer.kind),
            ),
            _ => None,
        };
        if same == Some(true) {
            return Saved::Kept(old.timer.id());
        }
        let begun = self.running(holder).is_some();
        let old = &mut self.timers[holder];
        let are_series = old.series.is_some() && timer.series.is_some();
        if same == Some(false) || (begun && are_series) {
            if same.is_some() {
                // It stands where it stood.
                if let (Some(old), Some(new)) = (&mut old.series, timer.series) {
                    old.missed = new.missed;
                }
            } else {
                old.series = timer.series;
            }
            (old.kind, old.payload, old.cancelled) = (timer.kind, timer.payload, false);
            old.version += 1;
            return Saved::Updated(old.timer.id());
        }
        if begun && is_over {
            return Saved::Over { dropped: None };
        }
        if begun {
            (old.key, old.cancelled) = (None, true);
            old.version += 1;
            let begun = old.timer.id();
            self.timers.push(timer);
            return Saved::Follows { id, begun };
        }
        let dropped = self.timers.remove(holder).timer;
        if is_over {
            return Saved::Over { dropped: Some(dropped) };
        }
        self.timers.push(timer);
        Saved::Replaced { id, dropped }
    }

    /// Without the looks ahead and the end, of which a store may choose.
    pub(crate) fn check_load(&self, owner: Owner, ask: &Ask, loaded: &Loaded) {
        if self.epoch != owner.epoch {
            assert!(loaded.lost);
            return;
        }
        assert!(!loaded.lost);
        let all = self.listed(false, ask.after);
        let end = loaded.end;
        assert!(loaded.timers.len() <= ask.limit);
        let is_whole = end >= Place::last_of(ask.until);
        let expected: Vec<Near> = all
            .iter()
            .filter(|timer| timer.timer.place() <= end && timer.timer.due() <= ask.until)
            .filter(|timer| ask.kinds.contains(&timer.kind))
            .filter(|timer| !is_of(timer, owner.epoch))
            .map(|timer| timer.timer)
            .collect();
        assert_eq!(loaded.timers, expected);
        let next = all.iter().map(|timer| timer.timer).find(|near| near.place() > end);
        assert_eq!(loaded.next_due, next.map(Near::due));
        // It ends early only because there was too much.
        assert!(is_whole || next.is_some(), "{loaded:?}");
    }

    pub(crate) fn begin(&mut self, owner: Owner, ask: &ToBegin) -> Vec<Begun> {
        let nears = &ask.timers;
        let epoch = owner.epoch;
        if self.epoch != epoch {
            return vec![Begun::Lost; nears.len()];
        }
        let begin = |near: &Near| {
            // What was cancelled, and runs no more.
            let is_over = |timer: &Stored| {
                let is_asked = timer.timer == *near && ask.kinds.contains(&timer.kind) && !is_buried(timer);
                is_asked && timer.cancelled && !is_of(timer, epoch)
            };
            let before = self.timers.len();
            self.timers.retain(|timer| !is_over(timer));
            if self.timers.len() < before {
                return Begun::Cancelled;
            }
            let found = self.timers.iter_mut().find(|timer| timer.timer == *near && !is_buried(timer));
            let Some(timer) = found.filter(|timer| ask.kinds.contains(&timer.kind)) else {
                return Begun::Gone;
            };
            if has_begun(timer) && !is_of(timer, epoch) {
                crash(timer);
            }
            timer.attempts += u32::from(!is_of(timer, epoch));
            timer.state = State::Begun { epoch, attempt: timer.attempts };
            Begun::Yours(Box::new(timer.clone()))
        };
        nears.iter().map(begin).collect()
    }

    pub(crate) fn settle(&mut self, owner: Owner, ended: Ended) -> Settled {
        if self.epoch != owner.epoch {
            return Settled::Fenced;
        }
        let Ended { timer: near, attempt, version, change } = ended;
        let found = self.timers.iter().position(|timer| {
            let state = match attempt {
                0 if timer.attempts == 0 => State::Stored,
                _ => State::Begun { epoch: owner.epoch, attempt },
            };
            timer.timer == near && timer.state == state
        });
        let Some(index) = found else { return Settled::Gone };
        let mut timer = self.timers[index].clone();
        if timer.version != version {
            return Settled::Changed(Box::new(timer));
        }
        self.timers.remove(index);
        let (error, put) = match change {
            Change::Delete => (None, None),
            Change::Put(mut put) => (put.error.take(), Some(put)),
            Change::Bury { reason, was_called, next } => {
                let mut buried = timer.clone();
                note(&mut buried, attempt, was_called.then(|| reason.clone()));
                // Where it stood does not matter any more, and nothing that was changed.
                buried.timer = Near::from(buried.timer.id());
                buried.attempts = attempt - u32::from(!was_called);
                (buried.cancelled, buried.version, buried.state) =
                    (false, 0, State::Buried(Buried::new(reason)));
                self.timers.push(buried);
                (None, next)
            }
        };
        if let Some(Put { timer: to, series, attempts, error: _ }) = put {
            note(&mut timer, attempt, error);
            if to.id() != near.id() {
                timer.failures.clear();
                timer.crashes = 0;
            }
            (timer.timer, timer.series, timer.attempts, timer.state) = (to, series, attempts, State::Stored);
            self.timers.push(timer);
        }
        Settled::Done
    }

    pub(crate) fn cancel(&mut self, which: &Which) -> Removal {
        let Some(index) = self.standing(which) else {
            let is_of = |timer: &Stored| match which {
                Which::Id(id) => timer.timer.id() == *id,
                Which::Key(key) => timer.key.as_ref() == Some(key),
            };
            // Buried ones, as no other is left.
            let first = self.timers.iter().filter(|timer| is_of(timer)).map(|timer| timer.timer).min();
            self.timers.retain(|timer| !is_of(timer));
            return first.map_or(Removal::NotFound, Removal::Removed);
        };
        if let Some(attempt) = self.running(index) {
            let timer = &mut self.timers[index];
            timer.version += u32::from(!timer.cancelled);
            timer.cancelled = true;
            return Removal::Running(timer.timer.id(), attempt);
        }
        Removal::Removed(self.timers.remove(index).timer)
    }

    pub(crate) fn reschedule(&mut self, which: &Which, due: Timestamp) -> Move {
        let Some(index) = self.standing(which) else { return Move::NotFound };
        let timer = &self.timers[index];
        if timer.cancelled && !is_of(timer, self.epoch) {
            return Move::NotFound;
        }
        let running = self.running(index);
        let timer = &mut self.timers[index];
        if let Some(attempt) = running {
            return Move::Running(timer.timer.id(), attempt);
        }
        let from = timer.timer;
        timer.timer = Near::new(from.id(), due);
        Move::Moved { from, to: timer.timer }
    }

    pub(crate) fn unbury(&mut self, id: TimerId, due: Option<Timestamp>, number: u64) -> Taken {
        let found = self.timers.iter().position(|timer| is_buried(timer) && timer.timer.id() == id);
        let Some(index) = found else { return Taken::NotFound };
        let Some(due) = due else {
            self.timers.remove(index);
            return Taken::Deleted;
        };
        // Its series goes on without it.
        let (mut id, mut key) = (id, self.timers[index].key.clone());
        if self.timers[index].series.is_some() {
            (id, key) = (TimerId::new(id.first_due(), number), None);
        }
        if let Some(holder) = key.clone().and_then(|key| self.standing(&Which::Key(key))) {
            return Taken::KeyTaken(self.timers[holder].timer.id());
        }
        let timer = &mut self.timers[index];
        (timer.timer, timer.key, timer.series) = (Near::new(id, due), key, None);
        (timer.attempts, timer.crashes, timer.state) = (0, 0, State::Stored);
        Taken::Stored(timer.timer)
    }

    fn listed(&self, buried: bool, after: Place) -> Vec<&Stored> {
        let mut listed: Vec<&Stored> =
            self.timers.iter().filter(|timer| is_buried(timer) == buried).collect();
        listed.sort_by_key(|timer| timer.timer.place());
        listed.retain(|timer| timer.timer.place() > after);
        listed
    }

    pub(crate) fn list(&self, page: &Page) -> Vec<Stored> {
        let mut listed = self.listed(page.buried, page.after);
        listed.retain(|timer| timer.series.is_some() || !page.only_series);
        listed.retain(|timer| page.kind.as_ref().is_none_or(|kind| *kind == timer.kind));
        listed.into_iter().take(page.limit).cloned().collect()
    }

    pub(crate) fn get(&self, which: &Which) -> Option<Stored> {
        self.standing(which).map(|index| self.timers[index].clone())
    }

    pub(crate) fn count(&self) -> Counts {
        let count = |is_counted: &dyn Fn(&Stored) -> bool| {
            self.timers.iter().filter(|timer| is_counted(timer)).count() as u64
        };
        let mut counts = Counts::default();
        counts.stored = count(&|timer| timer.state == State::Stored);
        (counts.begun, counts.buried) = (count(&has_begun), count(&is_buried));
        counts
    }

    /// Some timer, to be asked of.
    pub(crate) fn any(&self, random: &mut fastrand::Rng) -> Option<&Stored> {
        random.choice(&self.timers)
    }
}
