//! The database: the meaning of the SQL of `PostgresStore`, over ordered maps. Pure: it is told the time, and who asks.
//! `tests/it/stores` compares each store with it, call by call.
//!
//! A call that has to wait for a lock answers `None`, and is made again when a transaction has ended.

mod members;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use timingwheel_durable::store::{
    Ask, Begun, Buried, Change, Counts, Ended, Kinds, Loaded, Move, Near, NewTimer, Page, Removal, Saved,
    Settled, State, Stored, Taken, ToBegin, Which,
};
use timingwheel_durable::{Place, TimerId};

use super::history::{self, Event, History, needs, number_in};
use super::lack::Lack;
use super::row::Row;

pub(crate) const SHARDS: u64 = 64;

/// The first lease: an instance that has not heard of its join does not keep shards for long.
const FIRST_LEASE_MS: i64 = 10_000;

/// An owner, and what tells it from another one of that epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) epoch: u64,
    pub(crate) token: u64,
}

/// An instance, as the tables have it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) expires_at: i64,
    /// Without any it gets no shards.
    pub(crate) kinds: Kinds,
    /// Of these it cannot read the rules of series.
    unread: BTreeSet<String>,
    /// After a restore, two instances may have one epoch.
    token: u64,
}

impl Member {
    fn can(&self, kind: &str, is_series: bool) -> bool {
        self.kinds.contains(kind) && !(is_series && self.unread.contains(kind))
    }
}

pub(crate) fn shard(unique: u64) -> u64 {
    unique % SHARDS
}

/// With which kinds an instance helps in which shards, and whether with their series.
type Helps = BTreeMap<u64, BTreeSet<(String, bool)>>;

/// What a snapshot has.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    pub(crate) epochs: u64,
    numbers: u64,
    pub(crate) members: BTreeMap<u64, Member>,
    pub(crate) owners: BTreeMap<u64, u64>,
    helps: RefCell<BTreeMap<u64, Arc<Helps>>>,
    /// Kinds.
    pub(crate) paused: BTreeSet<String>,
    /// When the first timer of a shard is due, as far as its owners have seen.
    lows: BTreeMap<u64, i64>,
    rows: BTreeMap<Place, Row>,
    places: BTreeMap<u64, Place>,
    keys: BTreeMap<String, Place>,
    buried: BTreeMap<TimerId, (Row, String)>,
}

/// How often the rules of the simulation run: a divisor of an hour or of a day, by UTC.
fn every_ms(rule: &str) -> Option<i64> {
    let fields = rule.strip_prefix("cron ")?.split(' ').take(2);
    let steps: Vec<i64> =
        fields.map(|field| field.strip_prefix("*/").and_then(|n| n.parse().ok()).unwrap_or(1)).collect();
    if rule.starts_with("cron 0 ") { Some(steps[1] * 3_600_000) } else { Some(steps[0] * 60_000) }
}

/// The answer to a renewal.
pub(crate) struct Lease {
    pub(crate) parts: Parts,
    pub(crate) others_ms: Option<i64>,
    pub(crate) taken: u32,
    pub(crate) first_due: Option<Timestamp>,
    pub(crate) low: Option<i64>,
    pub(crate) now_ms: i64,
    pub(crate) paused: BTreeSet<String>,
}

/// The parts of an owner in the timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) shards: BTreeSet<u64>,
    /// In these it begins timers of kinds for which their owner has no handler.
    pub(crate) helps: BTreeSet<u64>,
    /// Others have handlers for kinds for which it has none.
    pub(crate) is_helped: bool,
}

impl Parts {
    pub(crate) fn has(&self, shard: u64) -> bool {
        self.shards.contains(&shard) || self.helps.contains(&shard)
    }
}

/// A name that an open transaction holds: the number of a timer, or a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Timer(u64),
    Key(String),
}

#[derive(Default)]
pub(crate) struct Db {
    pub(crate) tables: Tables,
    /// By the database's clock.
    pub(crate) now_ms: i64,
    /// Which instance of the world asks.
    pub(crate) asks: usize,
    pub(crate) locks: BTreeSet<Lock>,
    /// Notes for whoever listens: a shard and a due time, or `None` if the shards are shared out anew.
    pub(crate) notes: Vec<Option<(u64, i64)>>,
    pub(crate) history: History,
    pub(crate) lacks: Option<Lack>,
}

impl Db {
    pub(crate) fn has(&self, part: Lack) -> bool {
        self.lacks != Some(part)
    }

    fn log(&mut self, event: Event) {
        self.history.push(event);
    }

    fn is_locked(&self, row: &Row) -> bool {
        self.locks.contains(&Lock::Timer(row.timer.id().unique()))
    }

    fn runs(&self, row: &Row) -> bool {
        row.begun_by.is_some_and(|epoch| self.tables.members.contains_key(&epoch))
    }

    fn insert(&mut self, row: Row) {
        let at = row.timer.place();
        if let Some(key) = &row.key {
            self.tables.keys.insert(key.clone(), at);
        }
        self.tables.places.insert(row.timer.id().unique(), at);
        self.tables.rows.insert(at, row);
    }

    fn remove(&mut self, at: Place) -> Option<Row> {
        let row = self.tables.rows.remove(&at)?;
        if let Some(key) = &row.key {
            self.tables.keys.remove(key);
        }
        self.tables.places.remove(&row.timer.id().unique());
        Some(row)
    }

    fn find(&self, which: &Which) -> Option<&Row> {
        let at = match which {
            Which::Id(id) => self.tables.places.get(&id.unique()),
            Which::Key(key) => self.tables.keys.get(key),
        };
        let row = self.tables.rows.get(at?)?;
        let is_it = !matches!(which, Which::Id(id) if row.timer.id() != *id);
        is_it.then_some(row)
    }

    /// Where it stands, of this due time.
    fn at(&self, timer: Near) -> Option<&Row> {
        self.tables.rows.get(&timer.place()).filter(|row| row.timer == timer)
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.tables.numbers += 1;
        1 << 62 | self.tables.numbers << 6 | self.tables.numbers.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58
    }

    pub(crate) fn save(&mut self, timers: &[NewTimer]) -> Option<Vec<Saved>> {
        // The locks of one statement are all had, or the statement waits.
        for timer in timers {
            let Some(key) = &timer.key else { continue };
            let holder = self.find(&Which::Key(key.clone()));
            if self.locks.contains(&Lock::Key(key.clone())) || holder.is_some_and(|row| self.is_locked(row)) {
                return None;
            }
        }
        Some(timers.iter().map(|timer| self.save_one(timer.clone())).collect())
    }

    fn save_new(&mut self, timer: NewTimer) {
        let (id, n, needs) = (timer.id, number_in(&timer.payload), needs(&timer.payload));
        let every_ms = timer.series.as_ref().and_then(|series| every_ms(&series.rule));
        self.log(Event::Saved { inst: self.asks, id, n, key: timer.key.clone(), needs, every_ms });
        self.insert(Row::new(timer));
    }

    fn save_one(&mut self, timer: NewTimer) -> Saved {
        let id = timer.id;
        let Some(key) = timer.key.clone() else {
            self.save_new(timer);
            return Saved::Stored(id);
        };
        let mut holder = self.find(&Which::Key(key.clone())).cloned();
        if let Some(row) = holder.take_if(|row| row.ending && !self.runs(row)) {
            self.remove(row.timer.place());
            self.log(Event::Dropped { id: row.timer.id(), why: "cancelled before" });
        }
        let Some(mut old) = holder else {
            if timer.is_over {
                return Saved::Over { dropped: None };
            }
            self.save_new(timer);
            return Saved::Stored(id);
        };
        let is_plain = old.series.is_none() && !old.ending;
        if !timer.replaces || (timer.series.is_some() && is_plain) {
            return Saved::KeyTaken(old.timer.id());
        }
        let runs = self.runs(&old);
        let rules = old.series.as_ref().zip(timer.series.as_ref());
        let is_same = !old.ending && rules.is_some_and(|(one, two)| one.rule == two.rule);
        if is_same
            && rules.is_some_and(|(one, two)| one.missed == two.missed)
            && old.payload == timer.payload
            && old.kind == timer.kind
        {
            return Saved::Kept(old.timer.id());
        }
        let at = old.timer.place();
        if is_same || (runs && rules.is_some()) {
            let (n, needs) = (number_in(&timer.payload), needs(&timer.payload));
            let series = match (is_same, old.series.take(), timer.series) {
                (true, Some(mut stands), Some(new)) => {
                    stands.missed = new.missed;
                    Some(stands)
                }
                (_, _, new) => new,
            };
            (old.series, old.kind, old.payload, old.ending) = (series, timer.kind, timer.payload, false);
            if !runs {
                old.crash();
            }
            old.version += 1;
            let (id, every_ms) =
                (old.timer.id(), old.series.as_ref().and_then(|series| every_ms(&series.rule)));
            self.tables.rows.insert(at, old);
            self.log(Event::Updated { id, n, needs, every_ms });
            return Saved::Updated(id);
        }
        if runs && timer.is_over {
            return Saved::Over { dropped: None };
        }
        if runs {
            let begun = old.timer.id();
            self.tables.keys.remove(&key);
            (old.key, old.ending) = (None, true);
            old.version += 1;
            self.tables.rows.insert(at, old);
            self.log(Event::Ending { id: begun });
            self.save_new(timer);
            return Saved::Follows { id, begun };
        }
        self.remove(at);
        self.log(Event::Dropped { id: old.timer.id(), why: "replaced" });
        if timer.is_over {
            return Saved::Over { dropped: Some(old.timer) };
        }
        self.save_new(timer);
        Saved::Replaced { id, dropped: old.timer }
    }

    pub(crate) fn cancel(&mut self, which: &Which) -> Option<Removal> {
        if matches!(which, Which::Key(key) if self.locks.contains(&Lock::Key(key.clone()))) {
            return None;
        }
        let Some(row) = self.find(which) else { return Some(self.cancel_buried(which)) };
        if self.is_locked(row) {
            return None;
        }
        let (at, timer, attempts) = (row.timer.place(), row.timer, row.attempts);
        if !self.runs(row) {
            self.remove(at);
            self.log(Event::Dropped { id: timer.id(), why: "cancelled" });
            return Some(Removal::Removed(timer));
        }
        if let Some(row) = self.tables.rows.get_mut(&at).filter(|row| !row.ending) {
            row.ending = true;
            row.version += 1;
            self.log(Event::Ending { id: timer.id() });
        }
        Some(Removal::Running(timer.id(), attempts))
    }

    /// As no other is left.
    fn cancel_buried(&mut self, which: &Which) -> Removal {
        let is_it = |row: &Row| match which {
            Which::Id(id) => row.timer.id() == *id,
            Which::Key(key) => row.key.as_ref() == Some(key),
        };
        let buried = self.tables.buried.iter().filter(|(_, (row, _))| is_it(row)).map(|(id, _)| *id);
        let ids: Vec<TimerId> = buried.collect();
        for id in &ids {
            self.tables.buried.remove(id);
            self.log(Event::Dropped { id: *id, why: "cancelled, and was buried" });
        }
        ids.first().map_or(Removal::NotFound, |id| Removal::Removed((*id).into()))
    }

    pub(crate) fn reschedule(&mut self, which: &Which, due: Timestamp) -> Option<Move> {
        if matches!(which, Which::Key(key) if self.locks.contains(&Lock::Key(key.clone()))) {
            return None;
        }
        let Some(row) = self.find(which) else { return Some(Move::NotFound) };
        if self.is_locked(row) {
            return None;
        }
        let from = row.timer;
        if self.runs(row) {
            return Some(Move::Running(from.id(), row.attempts));
        }
        if row.ending {
            return Some(Move::NotFound);
        }
        let to = Near::new(from.id(), due);
        if let Some(mut row) = self.remove(from.place()) {
            row.crash();
            row.timer = to;
            self.insert(row);
        }
        self.log(Event::Moved { id: from.id(), due_ms: to.due().as_millisecond() });
        Some(Move::Moved { from, to })
    }

    pub(crate) fn unbury(&mut self, id: TimerId, due: Option<Timestamp>, number: u64) -> Option<Taken> {
        let Some((row, _)) = self.tables.buried.get(&id) else { return Some(Taken::NotFound) };
        let Some(due) = due else {
            self.tables.buried.remove(&id);
            self.log(Event::Dropped { id, why: "deleted" });
            return Some(Taken::Deleted);
        };
        let is_series = row.series.is_some() && self.has(Lack::PlainRetry);
        if let Some(key) = row.key.as_ref().filter(|_| !is_series) {
            if self.locks.contains(&Lock::Key(key.clone())) {
                return None;
            }
            if let Some(holder) = self.find(&Which::Key(key.clone())) {
                return Some(Taken::KeyTaken(holder.timer.id()));
            }
        }
        let (mut row, _) = self.tables.buried.remove(&id)?;
        // A run of a series is a plain timer from here on.
        let name = if is_series { TimerId::new(id.first_due(), number) } else { id };
        if is_series {
            (row.key, row.series) = (None, None);
        }
        row.timer = Near::new(name, due);
        (row.attempts, row.crashes, row.begun_by) = (0, 0, None);
        let timer = row.timer;
        self.insert(row);
        self.log(Event::Retried { id, name, due_ms: due.as_millisecond() });
        Some(Taken::Stored(timer))
    }

    /// Answers all kinds that are paused.
    pub(crate) fn pause(&mut self, change: Option<&(String, bool)>) -> BTreeSet<String> {
        if let Some((kind, is_paused)) = change.cloned() {
            let paused = &mut self.tables.paused;
            if if is_paused { paused.insert(kind.clone()) } else { paused.remove(&kind) } {
                self.log(Event::Paused { kind, is_paused });
                self.notes.push(None);
            }
        }
        self.tables.paused.clone()
    }

    // Attempts.

    pub(crate) fn load(&self, who: Who, ask: &Ask) -> Loaded {
        let epoch = who.epoch;
        if !self.is_member(who) {
            return Loaded::lost();
        }
        let helps = self.helps(epoch);
        let is_own = |row: &Row| self.tables.owners.get(&shard(row.timer.id().unique())) == Some(&epoch);
        let helped_with = |row: &Row| helps.get(&shard(row.timer.id().unique()));
        let mut rest = self
            .tables
            .rows
            .range((std::ops::Bound::Excluded(ask.after), std::ops::Bound::Unbounded))
            .map(|(_, row)| row)
            .filter(|row| is_own(row) || helped_with(row).is_some())
            .peekable();
        let mut end = ask.after.max(Place::last_of(ask.until));
        let (mut timers, mut looked_at) = (Vec::new(), 0);
        while let Some(row) = rest.next_if(|row| row.timer.due() <= ask.until) {
            looked_at += 1;
            let is_its = is_own(row)
                || helped_with(row)
                    .is_some_and(|with| with.contains(&(row.kind.clone(), row.series.is_some())));
            if ask.kinds.contains(&row.kind) && is_its && !self.runs(row) {
                timers.push(row.timer);
            }
            if timers.len() == ask.limit || looked_at == ask.limit.saturating_mul(4) {
                if rest.peek().is_some() {
                    end = row.timer.place();
                }
                break;
            }
        }
        Loaded { timers, end, next_due: rest.peek().map(|row| row.timer.due()), lost: false }
    }

    pub(crate) fn begin(&mut self, who: Who, ask: &ToBegin) -> Vec<Begun> {
        let epoch = who.epoch;
        if !self.is_member(who) {
            return vec![Begun::Lost; ask.timers.len()];
        }
        ask.timers.iter().map(|near| self.begin_one(epoch, *near, ask)).collect()
    }

    fn begin_one(&mut self, epoch: u64, near: Near, ask: &ToBegin) -> Begun {
        let shard = shard(near.id().unique());
        let Some(row) = self.at(near).filter(|row| ask.kinds.contains(&row.kind)) else { return Begun::Gone };
        let is_mine = self.tables.owners.get(&shard) == Some(&epoch)
            || self.lacks(shard, &row.kind, row.series.is_some());
        let is_begun = row.begun_by == Some(epoch);
        let runs = self.runs(row) && !is_begun && self.has(Lack::BeginsOnce);
        if runs || !(is_mine || is_begun || !self.has(Lack::BeginsOwnShards)) {
            return Begun::Gone;
        }
        if self.is_locked(row) && self.has(Lack::BeginsUnlocked) {
            return Begun::Locked;
        }
        let id = near.id();
        // It was given back, or its process has died.
        if row.ending && !is_begun && (row.begun_by.is_none() || self.has(Lack::CancelledAndDied)) {
            self.remove(near.place());
            self.log(Event::Dropped { id, why: "cancelled before" });
            return Begun::Cancelled;
        }
        let Some(row) = self.tables.rows.get_mut(&near.place()) else { return Begun::Gone };
        if !is_begun {
            row.crash();
            row.attempts += 1;
            row.begun_by = Some(epoch);
        }
        let (stored, attempt) = (row.stored(), row.attempts);
        self.log(Event::Begun { inst: self.asks, epoch, id, attempt });
        Begun::Yours(Box::new(stored))
    }

    pub(crate) fn settle(&mut self, who: Who, ends: Vec<Ended>) -> Vec<Settled> {
        ends.into_iter().map(|ended| self.settle_one(who, ended)).collect()
    }

    pub(crate) fn settle_one(&mut self, who: Who, ended: Ended) -> Settled {
        if !self.is_member(who) {
            return Settled::Fenced;
        }
        let epoch = who.epoch;
        let Ended { timer, attempt, version, change } = ended;
        let begun_by = (attempt > 0).then_some(epoch);
        let found = self.at(timer).filter(|row| {
            (row.begun_by == begun_by || !self.has(Lack::SettlesOwn)) && row.attempts == attempt
        });
        let Some(row) = found else { return Settled::Gone };
        if self.is_locked(row) && self.has(Lack::SettlesUnlocked) {
            return Settled::Locked;
        }
        if row.version != version && self.has(Lack::SettlesVersion) {
            return Settled::Changed(Box::new(row.stored()));
        }
        let Some(mut row) = self.remove(timer.place()) else { return Settled::Gone };
        let (id, inst, is_series, db_ms) = (timer.id(), self.asks, row.series.is_some(), self.now_ms);
        let (put, told) = match change {
            Change::Delete => (None, "deleted"),
            Change::Put(put) => {
                row.note(attempt, put.error.clone());
                (Some(put), "stored")
            }
            Change::Bury { reason, next, was_called } => {
                let mut buried = row.clone();
                if was_called {
                    buried.note(attempt, Some(reason.clone()));
                } else {
                    // It was buried before its handler was called.
                    buried.attempts -= 1;
                }
                (buried.ending, buried.version) = (false, 0);
                self.tables.buried.insert(id, (buried, reason));
                (next, "buried")
            }
        };
        let every_ms = put.as_ref().and_then(|put| every_ms(&put.series.as_ref()?.rule));
        let next = put.as_ref().map(|put| (put.timer.id(), put.timer.due().as_millisecond(), put.attempts));
        if let Some(put) = put {
            if put.timer.id() != id {
                row.failures.clear();
                row.crashes = 0;
            }
            (row.timer, row.series, row.attempts, row.begun_by) = (put.timer, put.series, put.attempts, None);
            self.insert(row);
        }
        let ended = history::Settled { inst, epoch, id, attempt, told, next, every_ms, is_series, db_ms };
        self.log(Event::Settled(ended));
        Settled::Done
    }

    // Reads.

    pub(crate) fn get(&self, which: &Which) -> Option<Stored> {
        self.find(which).map(Row::stored)
    }

    pub(crate) fn list(&self, page: &Page) -> Vec<Stored> {
        let is_listed = |row: &Row| {
            page.kind.as_ref().is_none_or(|kind| *kind == row.kind)
                && (!page.only_series || row.series.is_some())
        };
        if page.buried {
            let buried = self.tables.buried.values().filter(|(row, _)| is_listed(row));
            let stored = buried.map(|(row, reason)| {
                let mut stored = row.stored();
                stored.timer = row.timer.id().into();
                stored.state = State::Buried(Buried::new(reason));
                stored
            });
            return stored.filter(|stored| stored.timer.place() > page.after).take(page.limit).collect();
        }
        let from = (std::ops::Bound::Excluded(page.after), std::ops::Bound::Unbounded);
        let rows = self.tables.rows.range(from).map(|(_, row)| row).filter(|row| is_listed(row));
        rows.take(page.limit).map(Row::stored).collect()
    }

    pub(crate) fn count(&self) -> Counts {
        let rows = self.tables.rows.len() as u64;
        let begun = self.tables.rows.values().filter(|row| row.begun_by.is_some()).count() as u64;
        let mut counts = Counts::default();
        (counts.stored, counts.begun, counts.buried) = (rows - begun, begun, self.tables.buried.len() as u64);
        counts
    }

    /// Whether a transaction that changes these would wait.
    pub(crate) fn waits(&self, which: &Which) -> bool {
        let key = matches!(which, Which::Key(key) if self.locks.contains(&Lock::Key(key.clone())));
        key || self.find(which).is_some_and(|row| self.is_locked(row))
    }
}
