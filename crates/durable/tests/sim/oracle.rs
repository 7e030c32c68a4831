//! Reads a history, and tells what in it is wrong.
//!
//! | rule | what it says |
//! |---|---|
//! | early | no handler is called before the time of its timer, by the database's clock |
//! | fence | a handler is called for an attempt that its instance has begun, and only once |
//! | lease | without its lease an instance calls no handler, unless it stood still just before |
//! | identity | each owner is one instance |
//! | shard | no owner begins a timer whose shard another one has
//! | cause | another attempt follows an answer of the handler, or the end of the owner before |
//! | uncalled | a timer ends by its handler, by a cancel, or as a missed run |
//! | buried, buried untried | a timer is buried by its handler's answer, or after its tries, each of which a handler has answered |
//! | taken along | or after crashes, for most of which other timers with as many crashes are not to blame |
//! | alone | a suspect runs without other suspects for its time |
//! | answer | what a user was told is true |
//! | due | a timer is due when its user said, by the database's clock |
//! | series | no run of a series is left out that was not missed, and none comes again |
//! | number | no two timers have one name |
//! | effects | an effect in a transaction of a handler happens once |
//! | refused | where nothing is wrong, calls have an answer, and none fails |
//! | late | where nothing is wrong, timers are on time |
//! | hint | and so are soon timers that others have saved: hints tell of them |
//! | handed over | and so are those of an instance that has just come or gone |
//! | late kind | and so are timers of a kind that only some instances run |
//! | cancelled, follows | after a cancel that came while it ran, there is no other attempt, and no other run |
//! | missed | a run is missed only if it is late |
//! | rule | a series goes on by the rule that it was saved with last |
//! | series over | a series goes on until it is cancelled |
//! | retry, retried series | a buried run of a series can be retried, and its series does not come back with it |
//! | lease lost, phantom | without a fault no lease is lost; an owner that nobody knows does not keep shards for long |
//! | outlives | no statement is carried out long after its caller was told that it failed |
//! | left | at the end nothing is left that is due |
//! | out | at the end each instance that runs is an owner |
//! | paused | no handler of a kind is called that was paused a lease before |
//! | busy | a world needs no more statements than instances need that have nothing to repeat without end |

mod burials;
mod calls;
mod calm;
mod series;

use std::collections::{BTreeMap, BTreeSet};

use timingwheel_durable::TimerId;

use self::burials::Crashes;
use self::calls::Asked;
use self::calm::{BEFORE, HANDED_OVER};
use crate::db::shard;
use crate::history::{Event, History, Settled};
use crate::network::{EPOCH_MS, MOST_STATEMENTS};
use crate::payload::kind;
use crate::script::Script;

/// The first lease, and the slowest answers that tell of its end.
const PHANTOM: i64 = 17_000;

#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) rule: &'static str,
    pub(crate) at: i64,
    pub(crate) what: String,
}

/// A timer as the database has it.
#[derive(Clone, Debug)]
struct Row {
    id: TimerId,
    n: u32,
    key: Option<String>,
    due_ms: i64,
    /// Since when it could run, by the world's time, as far as its store is concerned.
    since: i64,
    attempts: u32,
    begun_by: Option<u64>,
    begun_at: i64,
    crashes: Crashes,
    /// The handler of the present attempt was called.
    is_called: bool,
    is_ending: bool,
    needs: (u8, bool),
    /// How often its series runs.
    every_ms: Option<i64>,
}

/// What a restore takes back.
#[derive(Clone, Default)]
struct Stands {
    members: BTreeMap<u64, usize>,
    rows: BTreeMap<u64, Row>,
    buried: BTreeMap<TimerId, Row>,
    /// Which owner has which shard.
    owners: BTreeMap<u64, u64>,
    /// Kinds, and since when.
    paused: BTreeMap<String, i64>,
}

#[derive(Default)]
struct Reader {
    script: Script,
    stands: Stands,
    snapshots: BTreeMap<i64, Stands>,
    wrong: Vec<Wrong>,
    now: i64,
    lost_at: i64,
    db_set_at: i64,
    /// What the database's clock shows more than the world's.
    db_ahead: i64,
    frozen_until: BTreeMap<usize, i64>,
    gone_at: BTreeMap<u64, i64>,
    begun_at: BTreeMap<(usize, u64, TimerId, u32), i64>,
    /// The last answers of handlers of a timer since it was saved or retried: how many failed.
    failed: BTreeMap<TimerId, u32>,
    buries: BTreeSet<TimerId>,
    effects: BTreeMap<TimerId, u32>,
    asked: BTreeMap<usize, Asked>,
    /// Faults, starts and stops: from when until when they may be felt.
    uncalm: Vec<(i64, i64)>,
    /// The same, where those who come and go tell the others at once.
    unquiet: Vec<(i64, i64)>,
    held: Vec<(i64, i64, Option<String>)>,
    /// Which kinds the instances run, and whether they know the new shape, and zones.
    up: BTreeMap<usize, (Vec<u8>, bool, bool)>,
    /// Instances whose program does not know the new shape of payloads.
    old: BTreeSet<usize>,
    joined: BTreeMap<u64, (i64, bool)>,
    retried: BTreeSet<TimerId>,
    /// Faults other than clocks that are wrong from the start: from when until when they may be felt, and whether a clock was set.
    faults: Vec<(i64, i64, bool)>,
    /// When the server took no writes.
    outages: Vec<(i64, i64)>,
}

pub(crate) fn check(script: &Script, history: &History) -> Vec<Wrong> {
    let mut reader =
        Reader { script: script.clone(), lost_at: -1, db_set_at: i64::MIN / 2, ..Reader::default() };
    reader.feel(history);
    for (at, event) in &history.events {
        reader.now = *at;
        reader.read(event);
    }
    reader.wrong
}

impl Reader {
    fn wrong(&mut self, rule: &'static str, what: String) {
        self.wrong.push(Wrong { rule, at: self.now, what });
    }

    fn read(&mut self, event: &Event) {
        let key_before = self.key_of(event);
        match event {
            Event::Joined { .. } | Event::Up { .. } | Event::Down { .. } | Event::Gone { .. } => {
                self.overdue();
            }
            Event::Fault { .. } | Event::Lost { .. } | Event::End { .. } => self.overdue(),
            Event::Called { db_ms, .. }
            | Event::Asked { db_ms, .. }
            | Event::Settled(Settled { db_ms, .. }) => {
                self.db_ahead = db_ms - EPOCH_MS - self.now;
            }
            _ => {}
        }
        match event {
            Event::Shares { owners } => self.stands.owners.clone_from(owners),
            Event::Joined { inst, epoch } => {
                self.joined.insert(*epoch, (self.now, false));
                if let Some(other) = self.stands.members.insert(*epoch, *inst) {
                    self.wrong("identity", format!("epoch {epoch} is that of instances {other} and {inst}"));
                }
            }
            Event::Knows { epoch } => drop(self.joined.entry(*epoch).and_modify(|joined| joined.1 = true)),
            Event::Outlived { inst } => self.wrong("outlives", format!("a statement of {inst}")),
            Event::Gone { epoch, why } => {
                let inst = self.stands.members.remove(epoch);
                self.expired(*epoch, inst, why);
                self.gone_at.insert(*epoch, self.now);
            }
            Event::Lost { since } => {
                self.stands = self.snapshots.get(since).cloned().unwrap_or_default();
                self.lost_at = self.now;
            }
            Event::Snapshot => drop(self.snapshots.insert(self.now, self.stands.clone())),
            Event::DbClockSet => self.db_set_at = self.now,
            Event::Frozen { inst, until } => drop(self.frozen_until.insert(*inst, *until)),
            Event::Up { inst, kinds, is_new, has_zones } => {
                self.up.insert(*inst, (kinds.clone(), *is_new, *has_zones));
                if !is_new {
                    self.old.insert(*inst);
                }
            }
            Event::Down { inst, .. } => drop(self.up.remove(inst)),
            Event::Ended { inst, id, how, .. } => self.ended(*inst, *id, how),
            Event::Effect { id, .. } => {
                let count = self.effects.entry(*id).or_default();
                *count += 1;
                let count = *count;
                if count > 1 && self.lost_at < 0 {
                    self.wrong("effects", format!("{id} had its effect {count} times"));
                }
            }
            Event::Called { inst, epoch, id, attempt, due_ms, db_ms, .. } => {
                self.called(*inst, *epoch, *id, *attempt, *due_ms, *db_ms);
            }
            Event::Begun { inst, epoch, id, attempt } => self.begun(*inst, *epoch, *id, *attempt),
            Event::Settled(ended) => self.settled(ended),
            Event::Asked { call, db_ms, due_in_ms, key, .. } => {
                let mut asked = Asked {
                    key: key.clone(),
                    db_ms: *db_ms,
                    due_in_ms: *due_in_ms,
                    at: self.now,
                    was_absent: false,
                    was_there: false,
                    was_running: false,
                    was_removed: false,
                    moved: Vec::new(),
                    saved: BTreeSet::new(),
                };
                self.look(&mut asked);
                self.asked.insert(*call, asked);
                return;
            }
            Event::Told { call, what } => return self.told(*call, what),
            Event::End { statements, .. } => {
                if *statements > MOST_STATEMENTS {
                    self.wrong("busy", format!("{statements} statements were sent"));
                }
                let members: BTreeSet<usize> = self.stands.members.values().copied().collect();
                for inst in self.up.keys().copied().filter(|inst| !members.contains(inst)).collect::<Vec<_>>()
                {
                    self.wrong("out", format!("instance {inst} is no owner"));
                }
                return self.unanswered();
            }
            Event::Left { id, due_ms, is_series, is_buried, begun_by, .. } if !is_buried => {
                let left = self.script.lease_ms + 120_000;
                self.left(*id, *due_ms, left, *is_series, *begun_by);
            }
            event => self.changed(event),
        }
        // What is true now is true at a moment of each call that is under way.
        let (key, mut asked) = (self.key_of(event), std::mem::take(&mut self.asked));
        let changes_all = matches!(event, Event::Joined { .. } | Event::Gone { .. } | Event::Lost { .. });
        for asked in asked.values_mut() {
            if changes_all || (asked.key.is_some() && (asked.key == key || asked.key == key_before)) {
                self.look(asked);
            }
            asked.note(event);
        }
        self.asked = asked;
    }

    /// The key of the timer that an event is about, if somebody waits for an answer.
    fn key_of(&self, event: &Event) -> Option<String> {
        use Event::*;
        let id = match event {
            _ if self.asked.is_empty() => return None,
            Saved { id, .. } | Updated { id, .. } | Moved { id, .. } | Ending { id } => id,
            Dropped { id, .. } | Begun { id, .. } => id,
            Settled(ended) => &ended.id,
            Retried { name, .. } => name,
            _ => return None,
        };
        self.stands.rows.get(&id.unique())?.key.clone()
    }

    fn row(&mut self, id: TimerId) -> Option<&mut Row> {
        self.stands.rows.get_mut(&id.unique()).filter(|row| row.id == id)
    }

    fn changed(&mut self, event: &Event) {
        let now = self.now;
        match event {
            Event::Saved { id, n, key, needs, every_ms, .. } => {
                self.failed.remove(id);
                // One that runs and is replaced has no key any more.
                let before = self.stands.rows.values_mut().filter(|row| key.is_some() && row.key == *key);
                before.for_each(|row| row.key = None);
                let row = Row {
                    id: *id,
                    n: *n,
                    key: key.clone(),
                    due_ms: id.first_due().as_millisecond(),
                    since: now,
                    attempts: 0,
                    begun_by: None,
                    begun_at: 0,
                    crashes: Crashes::default(),
                    is_called: false,
                    is_ending: false,
                    needs: *needs,
                    every_ms: *every_ms,
                };
                if self.stands.rows.insert(id.unique(), row).is_some_and(|other| other.id == *id) {
                    self.wrong("number", format!("{id} is the name of two timers"));
                }
            }
            Event::Paused { kind, is_paused: true } => {
                self.stands.paused.entry(kind.clone()).or_insert(now);
            }
            Event::Paused { kind, .. } => drop(self.stands.paused.remove(kind)),
            Event::Updated { id, n, needs, every_ms } => {
                if let Some(row) = self.row(*id) {
                    (row.n, row.needs, row.is_ending, row.every_ms) = (*n, *needs, false, *every_ms);
                }
            }
            Event::Moved { id, due_ms } => {
                if let Some(row) = self.row(*id) {
                    row.crash();
                    (row.due_ms, row.since) = (*due_ms, now);
                }
            }
            Event::Ending { id } => {
                if let Some(row) = self.row(*id) {
                    row.is_ending = true;
                }
            }
            Event::Dropped { id, .. } if self.row(*id).is_some() => {
                self.stands.rows.remove(&id.unique());
            }
            Event::Dropped { id, .. } => drop(self.stands.buried.remove(id)),
            Event::Retried { id, name, due_ms } => {
                self.failed.remove(id);
                self.buries.remove(id);
                self.effects.remove(id);
                let Some(mut row) = self.stands.buried.remove(id) else { return };
                self.retried.insert(*name);
                if name != id {
                    (row.id, row.key) = (*name, None);
                }
                (row.due_ms, row.since, row.attempts, row.crashes) = (*due_ms, now, 0, Crashes::default());
                (row.begun_by, row.is_called, row.is_ending) = (None, false, false);
                self.stands.rows.insert(name.unique(), row);
            }
            _ => {}
        }
    }

    /// A store would notice it at the database, whose rows say which instance has them.
    fn is_member(&mut self, inst: usize, epoch: u64, id: TimerId) {
        let of = self.stands.members.get(&epoch).copied();
        if inst != usize::MAX && of.is_some_and(|of| of != inst) {
            self.wrong(
                "identity",
                format!("{id} is changed by instance {inst}, and epoch {epoch} is that of {of:?}"),
            );
        }
    }

    fn expired(&mut self, epoch: u64, inst: Option<usize>, why: &str) {
        let (now, lease) = (self.now, self.script.lease_ms);
        let (joined, is_known) = self.joined.get(&epoch).copied().unwrap_or((now, true));
        let has_fault = self.faults.iter().any(|(from, to, _)| *from <= now && now - 2 * lease <= *to);
        let is_up = inst.is_some_and(|inst| self.up.contains_key(&inst));
        // Somebody was there to notice.
        let is_seen = self.stands.members.values().any(|inst| self.up.contains_key(inst));
        // Nobody could remove it while the server took no writes.
        let outages = self.outages.iter().filter(|(from, until)| joined <= *until && *from <= now);
        let since = outages.map(|(_, until)| *until).fold(joined, i64::max);
        // A clock that was set back makes leases longer.
        if why != "expired" || self.lost_at >= joined || self.db_set_at >= joined {
        } else if !is_known && now - since > (lease / 2).max(PHANTOM) && is_seen {
            self.wrong(
                "phantom",
                format!("owner {epoch}, whom nobody knows, has had its shards for {} ms", now - joined),
            );
        } else if !has_fault && is_up {
            self.wrong(
                "lease lost",
                format!("owner {epoch} of {inst:?} has lost its lease, and nothing was wrong"),
            );
        }
    }

    fn begun(&mut self, inst: usize, epoch: u64, id: TimerId, attempt: u32) {
        self.is_member(inst, epoch, id);
        let now = self.now;
        let begun_before = self.begun_at.insert((inst, epoch, id, attempt), now);
        // It has ended, and a restore has brought it back.
        let is_back = begun_before.is_some_and(|at| at <= self.lost_at);
        let members: BTreeSet<u64> = self.stands.members.keys().copied().collect();
        let Some(row) = self.row(id) else { return };
        let is_over = row.is_ending && row.begun_by != Some(epoch);
        let (kind, is_series) = (row.needs.0, row.every_ms.is_some());
        let before = row.begun_by.filter(|before| *before != epoch && members.contains(before));
        let is_again = row.begun_by == Some(epoch);
        row.is_called &= is_again && !is_back;
        if !is_again {
            row.crash();
            row.begun_at = now;
        }
        (row.begun_by, row.attempts) = (Some(epoch), attempt);
        if is_over {
            self.wrong("cancelled", format!("{id} is begun again, and was cancelled"));
        }
        if let Some(before) = before {
            self.wrong("cause", format!("{id} is begun by {epoch} while {before} has it"));
        }
        let holder = self.stands.owners.get(&shard(id.unique())).copied();
        let of =
            holder.and_then(|holder| self.stands.members.get(&holder)).and_then(|inst| self.up.get(inst));
        // Where its owner has no handler for it, or cannot read its rule, others help.
        let can = |(kinds, _, zones): &(Vec<u8>, _, bool)| kinds.contains(&kind) && (*zones || !is_series);
        if !is_again && holder != Some(epoch) && of.is_some_and(can) {
            self.wrong("shard", format!("{id} is begun by {epoch}, and its shard is that of {holder:?}"));
        }
    }

    fn called(&mut self, inst: usize, epoch: u64, id: TimerId, attempt: u32, due_ms: i64, db_ms: i64) {
        let (now, lease) = (self.now, self.script.lease_ms);
        let stood_still = self.frozen_until.get(&inst).is_some_and(|until| now - until < lease);
        // Nobody knows that the clock was set before the next renewal.
        if db_ms < due_ms && now - self.db_set_at >= lease {
            self.wrong("early", format!("{id} is called by {inst} {} ms before its time", due_ms - db_ms));
        }
        let is_of_before =
            self.begun_at.get(&(inst, epoch, id, attempt)).is_none_or(|at| *at <= self.lost_at);
        if is_of_before {
            if self.lost_at < 0 {
                self.wrong(
                    "fence",
                    format!("{id} is called by {inst}, which has not begun attempt {attempt}"),
                );
            }
            // After a restore another instance may have its epoch, and have begun the same attempt.
            let is_its = self.stands.members.get(&epoch) == Some(&inst);
            if let Some(row) =
                self.row(id).filter(|row| is_its && (row.begun_by, row.attempts) == (Some(epoch), attempt))
            {
                row.is_called = true;
            }
            return;
        }
        if !self.stands.members.contains_key(&epoch) {
            let is_excused = stood_still || now - self.db_set_at < lease || now - self.lost_at < lease;
            // The database read its clock a while before the answer came.
            if !is_excused && self.gone_at.get(&epoch).is_some_and(|gone| *gone < now) {
                self.wrong("lease", format!("{id} is called by {inst}, whose lease is over"));
            }
            return;
        }
        let Some(row) = self.stands.rows.get(&id.unique()).filter(|row| row.id == id) else {
            self.wrong("fence", format!("{id} is called by {inst}, and is gone"));
            return;
        };
        let is_its = row.begun_by == Some(epoch) && row.attempts == attempt;
        let (is_again, late) = (row.is_called, self.is_late(row, now));
        let paused_at = self.stands.paused.get(kind(row.needs.0)).copied();
        if let Some(row) = self.row(id) {
            row.is_called = true;
        }
        self.runs_alone(id);
        if let Some(at) =
            paused_at.filter(|at| now - at > lease && now - self.lost_at > lease && !stood_still)
        {
            self.wrong("paused", format!("{id} is called by {inst}, {} ms after a pause", now - at));
        }
        if !is_its {
            self.wrong(
                "fence",
                format!("{id} is called by {inst} for attempt {attempt}, which is not the one begun"),
            );
        } else if is_again {
            self.wrong("fence", format!("{id} is called twice by {inst} for attempt {attempt}"));
        } else if let Some((rule, waits)) = late {
            self.wrong(rule, format!("{id} is called {waits} ms late"));
        }
    }

    /// Whether each instance has handlers for all kinds and shapes, and reads all rules.
    fn can_all(&self) -> (bool, bool) {
        let has_all = |(kinds, is_new, _): &(Vec<u8>, bool, bool)| kinds.len() == 3 && *is_new;
        (self.up.values().all(has_all), self.up.values().all(|(.., has_zones)| *has_zones))
    }

    /// Something changes: who waits too long by now has waited too long before.
    fn overdue(&mut self) {
        let now = self.now - BEFORE - 1;
        let waits = |row: &&Row| row.begun_by.is_none_or(|epoch| !self.stands.members.contains_key(&epoch));
        let rows = self.stands.rows.values().filter(waits);
        let late = rows.filter_map(|row| self.is_late(row, now).map(|(rule, waits)| (row.id, rule, waits)));
        for (id, rule, waits) in late.collect::<Vec<_>>() {
            self.wrong(rule, format!("{id} is not called, and {waits} ms late"));
        }
    }

    /// Which rule a timer breaks that waits still, and for how long it has.
    fn is_late(&self, row: &Row, now: i64) -> Option<(&'static str, i64)> {
        let late = EPOCH_MS + now + self.db_ahead - row.due_ms;
        // As soon as it is due, stored, and nobody holds it.
        let held = self.held.iter().filter(|(from, _, key)| *key == row.key && *from <= now);
        let free = held.map(|(_, to, _)| *to).max().unwrap_or(row.since).max(row.since);
        let waits = (now.saturating_sub(free)).min(late);
        let (can_all, reads_all) = self.can_all();
        let mut up = self.up.values();
        let can_some = up.any(|(kinds, is_new, _)| kinds.contains(&row.needs.0) && (*is_new || !row.needs.1));
        // A machine without zones gives a run of a series back after a while.
        if waits <= 4_000 || self.script.is_tight() || !can_some || (row.every_ms.is_some() && !reads_all) {
            return None;
        }
        let bound = self.script.lease_ms / 3 + 5_000 + if late > 60_000 { 60_000 } else { 0 };
        // Others hear of it as it is saved, or find it at their next renewal.
        let ahead = now - late - row.since;
        let is_near = ahead < 110_000 && late < 60_000;
        let is_known = is_near || ahead > self.script.lease_ms / 3 + 5_000;
        let rule = if waits > bound && self.is_calm(now - bound, now) {
            if can_all { "late" } else { "late kind" }
        } else if waits > HANDED_OVER
            && can_all
            && is_known
            && late < 60_000
            && self.is_quiet(now - HANDED_OVER, now)
        {
            "handed over"
        } else if is_near && self.is_calm(row.since.min(now - waits), now) {
            "hint"
        } else {
            return None;
        };
        Some((rule, waits))
    }

    fn settled(&mut self, ended: &Settled) {
        let Settled { inst, epoch, id, attempt, told, next, is_series, .. } = *ended;
        let now = self.now;
        self.is_member(inst, epoch, id);
        let Some(row) = self.row(id).map(|row| row.clone()) else { return };
        if attempt > 0 && row.begun_by != Some(epoch) {
            self.wrong("fence", format!("{id} is ended by {epoch}, and {:?} has begun it", row.begun_by));
        }
        self.is_tried(ended, &row);
        self.stands.rows.remove(&id.unique());
        if told == "buried" {
            let key = row.key.clone();
            self.stands.buried.insert(id, Row { key, ..row.clone() });
        }
        let is_over = is_series && next.is_none() && !row.is_ending && !self.retried.contains(&id);
        if is_over {
            self.wrong("series over", format!("{id}, n {}, is {told}, and its series ends", row.n));
        }
        let goes_on = next.is_some_and(|(next, ..)| next.unique() == id.unique() && next != id);
        // After a restore it may look as if it had not been called.
        let is_of_before =
            self.begun_at.get(&(inst, epoch, id, attempt)).is_none_or(|at| *at <= self.lost_at);
        if told == "deleted" && !row.is_called && !row.is_ending && !is_of_before {
            self.wrong("uncalled", format!("{id}, n {}, is deleted, and was not called", row.n));
        }
        if let Some((next, due_ms, attempts)) = next {
            let (since, is_ending) = (now, row.is_ending && next == id);
            let crashes = if next == id { row.crashes.given_back() } else { Crashes::default() };
            let row = Row {
                id: next,
                due_ms,
                since,
                attempts,
                begun_by: None,
                crashes,
                is_called: false,
                is_ending,
                ..row.clone()
            };
            self.stands.rows.insert(next.unique(), row);
        }
        if goes_on {
            self.goes_on(ended, &row);
        }
    }

    fn left(&mut self, id: TimerId, due_ms: i64, after: i64, is_series: bool, begun_by: Option<u64>) {
        let db_now = self.now + EPOCH_MS;
        if due_ms < db_now - after - 20_000 {
            self.wrong(
                "left",
                format!(
                    "{id} is left, due {} ms ago, series {is_series}, begun by {begun_by:?}",
                    db_now - due_ms
                ),
            );
        }
    }
}
