//! The meaning of each call of a store, over five maps and the number of the owner. It is pure, and fits any store that runs one
//! writing transaction at a time.

mod acts;
mod ended;
mod reads;
mod together;

use std::time::Duration;

pub(crate) use acts::{act, pause};
use ended::note_ended;
pub(crate) use ended::{histories, keep_history, prune};
use jiff::Timestamp;
pub(crate) use reads::{count, load, look, tally};
use together::together;

use crate::id::{Place, TimerId, millis};
use crate::store::{
    Begun, Change, Counts, Ended, Failure, Histories, Kinds, Move, Near, NewTimer, Owner, Paused, Phase, Put,
    Removal, Saved, Settled, Shown, State, Stored, Taken, ToBegin, Which,
};

/// An attempt: the epoch of the owner that began it, and its number among the attempts of its timer. The first is 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunBy {
    pub(crate) epoch: u64,
    pub(crate) number: u32,
    pub(crate) at: Option<Timestamp>,
}

/// What a store has beside its timers, and the time of the transaction.
#[derive(Default)]
pub(crate) struct About {
    /// The number of the present owner.
    pub(crate) epoch: u64,
    pub(crate) paused: Paused,
    /// For how long ended timers are kept, of each kind for which that was ever set.
    pub(crate) histories: Histories,
    /// The time, if somebody has [given the store a clock](crate::store::Store::set_clock).
    pub(crate) now: Option<Timestamp>,
}

/// The part of a timer that a load looks at.
pub(crate) struct Head {
    pub(crate) timer: Near,
    pub(crate) kind: String,
}

/// One after the other, as they are asked for.
pub(crate) type Each<'a, T, E> = Result<Box<dyn Iterator<Item = Result<T, E>> + 'a>, E>;

/// The maps, to be read.
pub(crate) trait Lookup {
    type Error;

    /// The timer at this place, without its attempt: see [`attempt`](Self::attempt).
    fn row(&self, at: Place) -> Result<Option<Stored>, Self::Error>;
    /// Its attempt, if it has begun.
    fn attempt(&self, at: Place) -> Result<Option<BegunBy>, Self::Error>;
    /// The place of the timer that has this key.
    fn keyed(&self, key: &str) -> Result<Option<Place>, Self::Error>;
    /// When a timer is due, if not at the time of its id.
    fn moved(&self, id: TimerId) -> Result<Option<i64>, Self::Error>;
    /// What the store has beside its timers.
    fn about(&self) -> &About;

    fn buried_row(&self, id: TimerId) -> Result<Option<Stored>, Self::Error>;
    /// The buried timers that have this key.
    fn buried_keyed(&self, key: &str) -> Result<Vec<TimerId>, Self::Error>;

    /// The first ended timer of a kind at this place or after it. A place here is the time of the end, and a number.
    fn ended_from(&self, kind: &str, from: Place) -> Result<Option<(Place, Shown)>, Self::Error>;
    /// The kinds and places of ended timers of this name.
    fn ended_named(&self, which: &Which) -> Result<Vec<(String, Place)>, Self::Error>;

    fn counts(&self) -> Result<Counts, Self::Error>;
    /// The timers after a place, or those of them that are series.
    fn heads(&self, after: Place, only_series: bool) -> Each<'_, Head, Self::Error>;
    /// The buried timers whose ids come after a place.
    fn buried(&self, after: Place) -> Each<'_, Stored, Self::Error>;
    /// What was put aside because it could not be read, as far as it can.
    fn damaged(&self, after: Place) -> Result<Vec<Shown>, Self::Error> {
        let _ = after;
        Ok(Vec::new())
    }
}

/// The maps, in one transaction.
pub(crate) trait Tables: Lookup {
    fn put(&mut self, row: &Stored) -> Result<(), Self::Error>;
    fn take(&mut self, at: Place) -> Result<Option<Stored>, Self::Error> {
        Ok(self.take_all(&[at])?.pop().flatten())
    }

    /// The rows at several places, which ascend. A map may find them faster together than one by one.
    fn rows(&self, places: &[Place]) -> Result<Vec<Option<Stored>>, Self::Error> {
        places.iter().map(|at| self.row(*at)).collect()
    }
    /// As [`rows`](Self::rows), and removes them.
    fn take_all(&mut self, places: &[Place]) -> Result<Vec<Option<Stored>>, Self::Error>;

    /// Returns the attempt before.
    fn set_attempt(&mut self, at: Place, attempt: Option<BegunBy>) -> Result<Option<BegunBy>, Self::Error>;
    /// Removes the attempts at several places, which ascend.
    fn take_attempts(&mut self, places: &[Place]) -> Result<Vec<Option<BegunBy>>, Self::Error> {
        places.iter().map(|at| self.set_attempt(*at, None)).collect()
    }
    /// The places of the timers that this owner has begun.
    fn begun_by(&self, epoch: u64) -> Result<Vec<(Place, BegunBy)>, Self::Error>;

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<(), Self::Error>;

    fn set_moved(&mut self, id: TimerId, due_ms: Option<i64>) -> Result<(), Self::Error>;

    /// Buried timers, by their ids.
    fn bury(&mut self, row: &Stored, reason: &str) -> Result<(), Self::Error>;
    fn unbury(&mut self, row: &Stored) -> Result<(), Self::Error>;

    fn put_ended(&mut self, at: Place, ended: &Shown) -> Result<(), Self::Error>;
    fn take_ended(&mut self, at: Place, ended: &Shown) -> Result<(), Self::Error>;

    /// To be changed.
    fn about_mut(&mut self) -> &mut About;
}

/// A store with one owner at a time needs no lease, and whoever has it has the handlers.
pub(crate) fn join<T: Tables>(tables: &mut T, _: Duration, _: Kinds) -> Result<Owner, T::Error> {
    let about = tables.about_mut();
    about.epoch += 1;
    Ok(Owner { epoch: about.epoch })
}

pub(crate) fn leave<T: Tables>(tables: &mut T, owner: Owner) -> Result<u64, T::Error> {
    if tables.about().epoch != owner.epoch {
        return Ok(0);
    }
    // From here on nobody owns the store.
    tables.about_mut().epoch += 1;
    let begun = tables.begun_by(owner.epoch)?;
    let mut given_back = 0;
    for (at, attempt) in begun {
        tables.set_attempt(at, None)?;
        if let Some(mut row) = tables.take(at)? {
            if row.cancelled {
                forget(tables, &row)?;
                note_ended(tables, &row, Some(attempt), Phase::Cancelled)?;
            } else {
                crash(&mut row, attempt);
                tables.put(&row)?;
            }
            given_back += 1;
        }
    }
    Ok(given_back)
}

pub(crate) fn begin<T: Tables>(tables: &mut T, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>, T::Error> {
    let ToBegin { timers, kinds } = ask;
    if tables.about().epoch != owner.epoch {
        return Ok(vec![Begun::Lost; timers.len()]);
    }
    let mut answers = vec![Begun::Gone; timers.len()];
    for together in together(&timers, |timer| timer.place()) {
        let places: Vec<Place> = together.iter().map(|index| timers[*index].place()).collect();
        let rows = tables.rows(&places)?;
        for ((index, at), row) in together.into_iter().zip(places).zip(rows) {
            let id = timers[index].id;
            let Some(mut row) = row.filter(|row| row.timer.id == id && kinds.contains(&row.kind)) else {
                continue;
            };
            if row.cancelled && delete_if_over(tables, owner.epoch, &row)? {
                answers[index] = Begun::Cancelled;
                continue;
            }
            let number = row.attempts.saturating_add(1);
            let mut attempt = BegunBy { epoch: owner.epoch, number, at: tables.about().now };
            match tables.set_attempt(at, Some(attempt))? {
                // It is answered again: the first answer was lost.
                Some(before) if before.epoch == owner.epoch => {
                    attempt = before;
                    tables.set_attempt(at, Some(attempt))?;
                }
                // An earlier owner's attempt counts, although it never ended.
                Some(before) => {
                    crash(&mut row, before);
                    attempt.number = before.number.saturating_add(1);
                    tables.set_attempt(at, Some(attempt))?;
                    tables.put(&row)?;
                }
                None => {}
            }
            answers[index] = Begun::Yours(Box::new(shown(row, Some(attempt))));
        }
    }
    Ok(answers)
}

pub(crate) fn save<T: Tables>(tables: &mut T, timers: Vec<NewTimer>) -> Result<Vec<Saved>, T::Error> {
    timers.into_iter().map(|timer| save_one(tables, timer)).collect()
}

fn save_one<T: Tables>(tables: &mut T, timer: NewTimer) -> Result<Saved, T::Error> {
    let NewTimer { replaces, is_over, .. } = timer;
    let mut new = Stored::from(timer);
    new.times.made = tables.about().now;
    let saved = match holder(tables, &new)? {
        Some(old) if !replaces || is_plain(&old, &new) => Saved::KeyTaken(old.timer.id),
        Some(old) => take_key(tables, old, &new, is_over)?,
        None if is_over => Saved::Over { dropped: None },
        None => Saved::Stored(new.timer.id),
    };
    if let Saved::Stored(_) | Saved::Replaced { .. } | Saved::Follows { .. } = saved {
        place(tables, &new, None)?;
    }
    Ok(saved)
}

/// A series never replaces a timer that is none, unless that was cancelled.
fn is_plain(old: &Stored, new: &Stored) -> bool {
    new.series.is_some() && old.series.is_none() && !old.cancelled
}

/// An attempt has ended with its process, and without an answer.
fn crash(row: &mut Stored, attempt: BegunBy) {
    (row.attempts, row.crashes) = (attempt.number, row.crashes.saturating_add(1));
    note(row, attempt.number, CRASH.to_owned(), attempt.at);
}

/// Deletes a timer that was cancelled while it ran, if its process has died since. Returns whether it has.
fn delete_if_over<T: Tables>(tables: &mut T, epoch: u64, row: &Stored) -> Result<bool, T::Error> {
    let at = row.timer.place();
    if tables.attempt(at)?.is_some_and(|attempt| attempt.epoch == epoch) {
        return Ok(false);
    }
    let attempt = tables.set_attempt(at, None)?;
    tables.take(at)?;
    forget(tables, row)?;
    note_ended(tables, row, attempt, Phase::Cancelled)?;
    Ok(true)
}

/// The timer that has the key.
fn holder<T: Tables>(tables: &mut T, new: &Stored) -> Result<Option<Stored>, T::Error> {
    let Some(key) = &new.key else { return Ok(None) };
    let Some(at) = tables.keyed(key)? else { return Ok(None) };
    // The key may lead nowhere, where the timer was damaged.
    let Some(old) = tables.row(at)? else { return Ok(None) };
    let epoch = tables.about().epoch;
    let is_over = old.cancelled && delete_if_over(tables, epoch, &old)?;
    Ok(Some(old).filter(|_| !is_over))
}

/// Decides about the timer that has the key, and about the new one, which is yet to be stored.
fn take_key<T: Tables>(
    tables: &mut T,
    mut old: Stored,
    new: &Stored,
    is_over: bool,
) -> Result<Saved, T::Error> {
    let (id, dropped) = (new.timer.id, old.timer);
    let series = old.series.as_ref().zip(new.series.as_ref());
    let has_same_rule = !old.cancelled && series.is_some_and(|(old, new)| old.rule == new.rule);
    let has_same_policy = series.is_some_and(|(old, new)| old.missed == new.missed);
    if has_same_rule && has_same_policy && old.payload == new.payload && old.kind == new.kind {
        return Ok(Saved::Kept(old.timer.id));
    }
    let (are_series, is_running) = (series.is_some(), running(tables, &mut old)?.is_some());
    if has_same_rule || (is_running && are_series) {
        (old.kind, old.payload, old.cancelled) = (new.kind.clone(), new.payload.clone(), false);
        match (&mut old.series, &new.series) {
            // It stands where it stood.
            (Some(old), Some(new)) if has_same_rule => old.missed = new.missed,
            (old, new) => old.clone_from(new),
        }
        old.version = old.version.wrapping_add(1);
        tables.put(&old)?;
        return Ok(Saved::Updated(old.timer.id));
    }
    if is_running && is_over {
        return Ok(Saved::Over { dropped: None });
    }
    if is_running {
        // The new one takes it over.
        old.key = None;
        old.cancelled = true;
        old.version = old.version.wrapping_add(1);
        tables.put(&old)?;
        return Ok(Saved::Follows { id, begun: dropped.id });
    }
    tables.take(dropped.place())?;
    forget(tables, &old)?;
    note_ended(tables, &old, None, Phase::Replaced)?;
    Ok(if is_over { Saved::Over { dropped: Some(dropped) } } else { Saved::Replaced { id, dropped } })
}

/// The error of an attempt whose process ended before it had answered.
pub(crate) const CRASH: &str = "its process ended before it answered";

/// How many errors are kept.
const KEPT_FAILURES: usize = 10;

pub(crate) fn settle<T: Tables>(
    tables: &mut T,
    owner: Owner,
    ends: Vec<Ended>,
) -> Result<Vec<Settled>, T::Error> {
    // A former owner ends nothing, even if nobody has begun the timer again.
    if tables.about().epoch != owner.epoch {
        return Ok(vec![Settled::Fenced; ends.len()]);
    }
    let mut answers = vec![Settled::Gone; ends.len()];
    let mut first = 0;
    let is_over = |ended: &Ended| ended.change == Change::Delete;
    // A timer that goes on may be put where another stands, so the order counts. A timer that is over changes only its own
    // place.
    for run in ends.chunk_by(|one, next| is_over(one) && is_over(next)) {
        for together in together(run, |ended| ended.timer.place()) {
            let places: Vec<Place> = together.iter().map(|index| run[*index].timer.place()).collect();
            let begun = tables.take_attempts(&places)?;
            let mut ready = Vec::with_capacity(together.len());
            for ((index, at), begun) in together.into_iter().zip(places).zip(begun) {
                // The fence: epoch and attempt here, id and version below.
                let attempt = run[index].attempt;
                let is_it = |begun: BegunBy| (begun.epoch, begun.number) == (owner.epoch, attempt);
                if begun.map_or(attempt == 0, is_it) {
                    ready.push((index, at, begun));
                } else if begun.is_some() {
                    tables.set_attempt(at, begun)?;
                }
            }
            let places: Vec<Place> = ready.iter().map(|(_, at, _)| *at).collect();
            let rows = tables.take_all(&places)?;
            for ((index, _, begun), row) in ready.into_iter().zip(rows) {
                if let Some(row) = row {
                    answers[first + index] = settle_one(tables, run[index].clone(), begun, row)?;
                }
            }
        }
        first += run.len();
    }
    Ok(answers)
}

/// The attempt and the row were taken from their place.
fn settle_one<T: Tables>(
    tables: &mut T,
    ended: Ended,
    begun: Option<BegunBy>,
    mut row: Stored,
) -> Result<Settled, T::Error> {
    let Ended { timer, attempt, version, change } = ended;
    // A pending run that is planned anew has never begun.
    let is_as_it_was = row.timer.id == timer.id && (begun.is_some() || row.attempts == 0);
    if !is_as_it_was || row.version != version {
        tables.put(&row)?;
        tables.set_attempt(timer.place(), begun)?;
        return Ok(if is_as_it_was { Settled::Changed(Box::new(shown(row, begun))) } else { Settled::Gone });
    }
    match change {
        Change::Delete => {
            forget(tables, &row)?;
            note_ended(tables, &row, begun, if row.cancelled { Phase::Cancelled } else { Phase::Done })?;
        }
        Change::Put(put) => {
            if begun.is_some() && put.timer.id != row.timer.id {
                let phase = if put.error.is_some() { Phase::Skipped } else { Phase::Done };
                note_ended(tables, &row, begun, phase)?;
            }
            put_back(tables, row, attempt, put)?;
        }
        Change::Bury { reason, was_called, next } => {
            row.attempts = attempt.saturating_sub(u32::from(!was_called));
            if was_called {
                note(&mut row, attempt, reason.clone(), tables.about().now);
            }
            let mut buried =
                Stored { timer: row.timer.id.into(), version: 0, cancelled: false, ..row.clone() };
            buried.times.buried = tables.about().now;
            forget(tables, &row)?;
            tables.bury(&buried, &reason)?;
            if let Some(next) = next {
                put_back(tables, row, attempt, next)?;
            }
        }
    }
    Ok(Settled::Done)
}

/// Stores a row again that was taken from its place.
fn put_back<T: Tables>(tables: &mut T, mut row: Stored, attempt: u32, put: Put) -> Result<(), T::Error> {
    let Put { timer, series, attempts, error } = put;
    if timer.id == row.timer.id {
        if let Some(error) = error {
            note(&mut row, attempt, error, tables.about().now);
        }
        let from = row.timer.place();
        return place(tables, &Stored { timer, series, attempts, ..row }, Some(from));
    }
    forget(tables, &row)?;
    place(tables, &Stored { timer, series, attempts, crashes: 0, failures: Vec::new(), ..row }, None)
}

fn note(row: &mut Stored, attempt: u32, error: String, at: Option<Timestamp>) {
    row.failures.push(Failure { attempt, error, at });
    let too_many = row.failures.len().saturating_sub(KEPT_FAILURES);
    row.failures.drain(..too_many);
}

pub(crate) fn cancel<T: Tables>(tables: &mut T, which: Which) -> Result<Removal, T::Error> {
    let Some(mut row) = find(tables, &which)? else {
        let buried = find_buried(tables, &which)?;
        buried.iter().try_for_each(|row| delete_buried(tables, row))?;
        return Ok(buried.first().map_or(Removal::NotFound, |row| Removal::Removed(row.timer)));
    };
    if let Some(attempt) = running(tables, &mut row)? {
        if !row.cancelled {
            row.cancelled = true;
            row.version = row.version.wrapping_add(1);
            tables.put(&row)?;
        }
        return Ok(Removal::Running(row.timer.id, attempt.number));
    }
    tables.take(row.timer.place())?;
    forget(tables, &row)?;
    note_ended(tables, &row, None, Phase::Cancelled)?;
    Ok(Removal::Removed(row.timer))
}

fn delete_buried<T: Tables>(tables: &mut T, row: &Stored) -> Result<(), T::Error> {
    tables.unbury(row)?;
    note_ended(tables, row, None, Phase::Failed)
}

pub(crate) fn reschedule<T: Tables>(tables: &mut T, which: Which, due: Timestamp) -> Result<Move, T::Error> {
    let Some(mut row) = find(tables, &which)? else { return Ok(Move::NotFound) };
    let from = row.timer;
    // One that was cancelled, and runs no more, is not to be due again.
    let epoch = tables.about().epoch;
    if row.cancelled && tables.attempt(from.place())?.is_none_or(|attempt| attempt.epoch != epoch) {
        return Ok(Move::NotFound);
    }
    if let Some(attempt) = running(tables, &mut row)? {
        return Ok(Move::Running(from.id, attempt.number));
    }
    tables.take(from.place())?;
    row.timer.due_ms = millis(due);
    place(tables, &row, Some(from.place()))?;
    Ok(Move::Moved { from, to: row.timer })
}

pub(crate) fn unbury<T: Tables>(
    tables: &mut T,
    id: TimerId,
    due: Option<Timestamp>,
    number: u64,
) -> Result<Taken, T::Error> {
    let Some(mut row) = tables.buried_row(id)? else { return Ok(Taken::NotFound) };
    let buried = row.clone();
    let Some(due) = due else {
        delete_buried(tables, &row)?;
        return Ok(Taken::Deleted);
    };
    // Its series goes on by itself, or is over.
    if row.series.take().is_some() {
        (row.timer.id.unique, row.key) = (number, None);
    }
    if let Some(key) = &row.key
        && let Some(holder) = tables.keyed(key)?
        && let Some(other) = tables.row(holder)?
    {
        return Ok(Taken::KeyTaken(other.timer.id));
    }
    tables.unbury(&buried)?;
    row.times.buried = None;
    (row.timer.due_ms, row.attempts, row.crashes, row.state) = (millis(due), 0, 0, State::Stored);
    place(tables, &row, None)?;
    Ok(Taken::Stored(row.timer))
}

/// The attempt that is under way, if there is one. An attempt of an earlier owner ended with that owner: it counts, and the
/// timer becomes stored. The caller puts the row, or removes it.
fn running<T: Tables>(tables: &mut T, row: &mut Stored) -> Result<Option<BegunBy>, T::Error> {
    let at = row.timer.place();
    let Some(attempt) = tables.attempt(at)? else { return Ok(None) };
    if attempt.epoch == tables.about().epoch {
        return Ok(Some(attempt));
    }
    tables.set_attempt(at, None)?;
    crash(row, attempt);
    Ok(None)
}

/// Puts a row at its place, with the entries that lead to it. `from` is its place before, if it had one.
fn place<T: Tables>(tables: &mut T, row: &Stored, from: Option<Place>) -> Result<(), T::Error> {
    let Near { due_ms, id } = row.timer;
    let (at, first) = (row.timer.place(), id.place());
    tables.put(row)?;
    if at != first {
        tables.set_moved(id, Some(due_ms))?;
    } else if from.is_some_and(|from| from != first) {
        tables.set_moved(id, None)?;
    }
    if let Some(key) = &row.key {
        tables.set_keyed(key, Some(at))?;
    }
    Ok(())
}

/// Removes the entries that led to a row at this place.
fn forget<T: Tables>(tables: &mut T, row: &Stored) -> Result<(), T::Error> {
    if row.timer != row.timer.id.into() {
        tables.set_moved(row.timer.id, None)?;
    }
    if let Some(key) = &row.key {
        tables.set_keyed(key, None)?;
    }
    Ok(())
}

/// The timer, unless it is buried.
pub(crate) fn get<L: Lookup>(tables: &L, which: Which) -> Result<Option<Stored>, L::Error> {
    find(tables, &which)?.map(|row| standing(tables, row)).transpose()
}

fn find<L: Lookup>(tables: &L, which: &Which) -> Result<Option<Stored>, L::Error> {
    let at = match which {
        Which::Id(id) => {
            if let Some(row) = tables.row(id.place())?.filter(|row| row.timer.id == *id) {
                return Ok(Some(row));
            }
            tables.moved(*id)?.map(|due_ms| Place { due_ms, unique: id.unique })
        }
        Which::Key(key) => tables.keyed(key)?,
    };
    at.map_or(Ok(None), |at| tables.row(at))
}

/// A timer as it stands: with its attempt.
fn standing<L: Lookup>(tables: &L, row: Stored) -> Result<Stored, L::Error> {
    let attempt = tables.attempt(row.timer.place())?;
    Ok(shown(row, attempt))
}

/// A timer with this attempt.
pub(crate) fn shown(mut row: Stored, attempt: Option<BegunBy>) -> Stored {
    if let Some(BegunBy { epoch, number, at }) = attempt {
        (row.attempts, row.state) = (number, State::Begun { epoch, attempt: number });
        row.times.begun = at;
    }
    row
}

/// The buried timers of this name or key.
fn find_buried<L: Lookup>(tables: &L, which: &Which) -> Result<Vec<Stored>, L::Error> {
    let ids = match which {
        Which::Id(id) => vec![*id],
        Which::Key(key) => tables.buried_keyed(key)?,
    };
    let rows = ids.into_iter().map(|id| tables.buried_row(id));
    rows.filter_map(Result::transpose).collect()
}

/// The calls of a [`Store`](crate::store::Store) that has two methods, `read` and `write`. Each runs a closure over the maps in
/// one transaction.
macro_rules! over_maps {
    ($($way:ident $call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        $($crate::tables::over_maps! { @ $way $call($($name: $type),*) -> $answer })*
    };
    (@ of_store $($call:tt)*) => {};
    (@ by_look $($call:tt)*) => {};
    (@ $way:ident $call:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        async fn $call(&self, $($name: $type),*) -> Result<$answer, Self::Error> {
            self.$way(move |tables| $crate::tables::$call(tables, $($name),*)).await
        }
    };
}
pub(crate) use over_maps;
