//! The maps in a transaction of redb, writing or reading.
//!
//! A row that cannot be read is left out of each answer, and moved to the damaged ones when the transaction ends. So a damaged
//! timer stops no other. If its key is damaged, or a key of a page above, look-ups miss other timers too. Whatever may have missed
//! one looks at the order beside it, and fails with `Reordered`; [`put_in_order`] then makes the map anew.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use jiff::Timestamp;
use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
    WriteTransaction,
};

use super::row::RowError;
use super::{RedbError, Result, runs};
use crate::id::{Place, TimerId, floor_millis, timestamp};
use crate::store::{Buried, Counts, NewTimer, Phase, Shown, State, Stored, Which};
use crate::tables::{About, BegunBy, Each, Head, Lookup, Tables, shown};

/// The newest format of a file that this version knows, and the one that it writes.
pub(super) const FORMAT: u64 = 4;

/// The timers while they are put in order.
const ORDERED: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("timers in order");
/// Begun timers up to format 2.
const BEGUN_BEFORE: TableDefinition<'_, u128, (u64, u32)> = TableDefinition::new("begun");

type Begun = (u64, u32, i64);

/// An ended timer: how it ended, where it stood, its attempt if one was under way, why it was buried, and its row.
type Past = (&'static str, u128, Option<Begun>, Option<&'static str>, &'static [u8]);

/// A key or an id as one text.
fn name(which: &Which) -> String {
    match which {
        Which::Id(id) => format!("id {id}"),
        Which::Key(key) => format!("key {key}"),
    }
}

fn names(timer: &Stored) -> impl Iterator<Item = Which> {
    [Which::Id(timer.timer.id)].into_iter().chain(timer.key.clone().map(Which::Key))
}

/// A damaged one is passed: it runs no more.
fn past(
    at: u128,
    (phase, place, attempt, reason, bytes): (&str, u128, Option<Begun>, Option<&str>, &[u8]),
) -> Option<Shown> {
    let mut row = Stored::from_bytes(place, bytes).ok()?;
    row.times.ended = Some(Place::from_number(at).due());
    if let Some(reason) = reason {
        row.state = State::Buried(Buried::new(reason));
    }
    Some(Shown::new(shown(row, attempt.map(begun_by)), phase.parse().ok()?))
}

fn begun_by((epoch, number, at): Begun) -> BegunBy {
    BegunBy { epoch, number, at: (at != i64::MIN).then(|| timestamp(at)) }
}

fn begun(BegunBy { epoch, number, at }: BegunBy) -> Begun {
    (epoch, number, at.map_or(i64::MIN, floor_millis))
}

/// The places of bytes that cannot be read, and whether they stand among the buried timers.
pub(super) type Damaged = BTreeSet<(bool, u128)>;

fn numbers(places: &[Place]) -> Vec<u128> {
    places.iter().map(|at| at.to_number()).collect()
}

/// Notes a row that cannot be read.
fn note<T>(
    damaged: &RefCell<Damaged>,
    (is_buried, at): (bool, u128),
    read: Result<T, RowError>,
) -> Option<T> {
    if read.is_err() {
        damaged.borrow_mut().insert((is_buried, at));
    }
    read.ok()
}

fn buried_row(damaged: &RefCell<Damaged>, id: u128, (reason, bytes): (&str, &[u8])) -> Option<Stored> {
    let row = note(damaged, (true, id), Stored::from_bytes(id, bytes))?;
    Some(Stored { state: State::Buried(Buried::new(reason)), ..row })
}

fn head(damaged: &RefCell<Damaged>, at: u128, bytes: &[u8]) -> Option<Head> {
    let (Stored { timer, kind, .. }, _) = note(damaged, (false, at), Stored::beginning(at, bytes))?;
    Some(Head { timer, kind })
}

/// The maps in a transaction. To open them in a writing one makes those that are missing.
macro_rules! maps {
    ($($(#[$doc:meta])* $map:ident $NAME:ident: $name:literal, $key:ty => $value:ty;)*) => {
        $($(#[$doc])* pub(super) const $NAME: TableDefinition<'_, $key, $value> = TableDefinition::new($name);)*

        pub(super) struct RedbTables<'t> {
            $($map: Table<'t, $key, $value>,)*
            damaged: RefCell<Damaged>,
            about: About,
            is_about_new: bool,
        }

        pub(super) struct RedbReads {
            $($map: ReadOnlyTable<$key, $value>,)*
            damaged: RefCell<Damaged>,
            about: About,
        }

        impl<'t> RedbTables<'t> {
            /// `now` is the time, if there is a clock.
            pub(super) fn open(transaction: &'t WriteTransaction, now: Option<Timestamp>) -> Result<Self> {
                let mut maps = Self {
                    $($map: transaction.open_table($NAME)?,)*
                    damaged: RefCell::default(),
                    about: About::default(),
                    is_about_new: false,
                };
                maps.about = about(&maps.meta, &maps.paused, &maps.histories, now)?;
                Ok(maps)
            }
        }

        impl RedbReads {
            pub(super) fn open(transaction: &ReadTransaction) -> Result<Self> {
                let mut maps = Self {
                    $($map: transaction.open_table($NAME)?,)*
                    damaged: RefCell::default(),
                    about: About::default(),
                };
                maps.about = about(&maps.meta, &maps.paused, &maps.histories, None)?;
                Ok(maps)
            }
        }
    };
}

maps! {
    meta META: "meta", &'static str => u64;
    /// Stored and begun timers, by their places.
    timers TIMERS: "timers", u128 => &'static [u8];
    /// The places of series.
    series SERIES: "series", u128 => ();
    /// Begun timers, by their places: epoch, attempt, and when it began.
    begun BEGUN: "begun at", u128 => Begun;
    /// The places of timers with a key, by the key.
    keys KEYS: "keys", &'static str => u128;
    /// Timers that are not due at the time of their id, by the id: when they are due.
    moved MOVED: "moved", u128 => i64;
    /// Buried timers, by their ids: the reason, and the timer.
    buried BURIED: "buried", u128 => (&'static str, &'static [u8]);
    /// The ids of buried timers with a key, by the key.
    buried_keys BURIED_KEYS: "buried keys", (&'static str, u128) => ();
    /// Kinds that are paused.
    paused PAUSED: "paused", &'static str => ();
    /// For how many milliseconds ended timers of a kind are kept.
    histories HISTORIES: "histories", &'static str => u64;
    /// Ended timers, by their kinds and by the places that stand for the times of their ends.
    ended ENDED: "ended", (&'static str, u128) => Past;
    /// The kinds of ended timers, by their [names](name) and places.
    ended_names ENDED_NAMES: "names of ended", (&'static str, u128) => &'static str;
    /// Bytes that could not be read, by their place, and whether they stood among the buried timers.
    damaged_rows DAMAGED: "damaged", (bool, u128) => &'static [u8];
}

fn about(
    meta: &impl ReadableTable<&'static str, u64>,
    paused: &impl ReadableTable<&'static str, ()>,
    histories: &impl ReadableTable<&'static str, u64>,
    now: Option<Timestamp>,
) -> Result<About> {
    let paused = paused.iter()?.map(|entry| Ok(entry?.0.value().to_owned()));
    let histories = histories.iter()?.map(|entry| {
        let (kind, age) = entry?;
        Ok((kind.value().to_owned(), Duration::from_millis(age.value())))
    });
    Ok(About {
        epoch: meta.get("epoch")?.map_or(0, |epoch| epoch.value()),
        paused: paused.collect::<Result<_>>()?,
        histories: histories.collect::<Result<_>>()?,
        now,
    })
}

/// Makes the map of timers anew, out of all entries that are whole. The others go to the damaged ones. Returns how many these are.
pub(super) fn put_in_order(transaction: &WriteTransaction) -> Result<u64> {
    let mut count = 0;
    {
        let mut ordered = transaction.open_table(ORDERED)?;
        let mut damaged = transaction.open_table(DAMAGED)?;
        // From one end to the other no key is looked up, so none is missed.
        for entry in transaction.open_table(TIMERS)?.iter()? {
            let (at, bytes) = entry?;
            if Stored::beginning(at.value(), bytes.value()).is_ok() {
                ordered.insert(at.value(), bytes.value())?;
            } else {
                damaged.insert((false, at.value()), bytes.value())?;
                count += 1;
            }
        }
        let mut begun = Vec::new();
        for entry in transaction.open_table(BEGUN)?.iter()? {
            let (at, attempt) = entry?;
            begun.push((at.value(), attempt.value()));
        }
        transaction.delete_table(BEGUN)?;
        let mut table = transaction.open_table(BEGUN)?;
        for (at, attempt) in begun {
            if ordered.get(at)?.is_some() {
                table.insert(at, attempt)?;
            }
        }
    }
    transaction.delete_table(TIMERS)?;
    transaction.rename_table(ORDERED, TIMERS)?;
    Ok(count)
}

/// Brings a file of an older format to this one.
pub(super) fn migrate(transaction: &WriteTransaction) -> Result<()> {
    let mut tables = RedbTables::open(transaction, None)?;
    for entry in transaction.open_table(BEGUN_BEFORE)?.iter()? {
        let (at, before) = entry?;
        let (epoch, number) = before.value();
        tables.begun.insert(at.value(), (epoch, number, i64::MIN))?;
    }
    for entry in tables.buried.iter()? {
        let (id, buried) = entry?;
        if let Ok(Stored { key: Some(key), .. }) = Stored::from_bytes(id.value(), buried.value().1) {
            tables.buried_keys.insert((key.as_str(), id.value()), ())?;
        }
    }
    transaction.delete_table(BEGUN_BEFORE)?;
    Ok(())
}

impl RedbTables<'_> {
    /// A timer that is not at its place was deleted, or a look-up has missed it.
    fn check_missed<T>(&self, places: &[u128], rows: &[Option<T>]) -> Result<()> {
        let missed = places.iter().zip(rows).filter(|(_, row)| row.is_none());
        missed.map(|(at, _)| *at).try_for_each(|at| runs::check_order(&self.timers, at))
    }

    /// Writes what has changed beside the timers.
    pub(super) fn keep_about(&mut self) -> Result<()> {
        let About { epoch, paused, histories, now: _ } = &self.about;
        if self.is_about_new {
            self.meta.insert("epoch", epoch)?;
            self.paused.retain(|_, ()| false)?;
            for kind in paused {
                self.paused.insert(kind.as_str(), ())?;
            }
            for (kind, age) in histories {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                self.histories.insert(kind.as_str(), age)?;
            }
        }
        Ok(())
    }

    /// Moves damaged timers out of the way: those found here, and those found by earlier reads. Returns how many there are.
    pub(super) fn keep_damaged(&mut self, found: Damaged) -> Result<u64> {
        let mut count = 0;
        for (is_buried, at) in self.damaged.take().into_iter().chain(found) {
            // Since it was read, it may have been deleted or written again.
            let there = if is_buried {
                self.buried.get(at)?.map(|buried| buried.value().1.to_vec())
            } else {
                self.timers.get(at)?.map(|timer| timer.value().to_vec())
            };
            // Another call has moved it, or it is there and a look-up does not find it.
            if !is_buried && there.is_none() && self.damaged_rows.get((is_buried, at))?.is_none() {
                return Err(RedbError::Reordered { path: None });
            }
            let Some(bytes) = there.filter(|bytes| Stored::from_bytes(at, bytes).is_err()) else { continue };
            self.damaged_rows.insert((is_buried, at), bytes.as_slice())?;
            if is_buried {
                self.buried.remove(at)?;
            } else {
                self.timers.remove(at)?;
                self.series.remove(at)?;
                self.begun.remove(at)?;
            }
            count += 1;
        }
        Ok(count)
    }
}

/// Both kinds of transactions read in one way.
macro_rules! lookup {
    ($($tables:ty)*) => {
        $(impl Lookup for $tables {
            type Error = RedbError;

            fn row(&self, at: Place) -> Result<Option<Stored>> {
                let at = at.to_number();
                let Some(bytes) = ReadableTable::get(&self.timers, at)? else {
                    runs::check_order(&self.timers, at)?;
                    return Ok(None);
                };
                Ok(note(&self.damaged, (false, at), Stored::from_bytes(at, bytes.value())))
            }

            fn attempt(&self, at: Place) -> Result<Option<BegunBy>> {
                Ok(ReadableTable::get(&self.begun, at.to_number())?.map(|begun| begun_by(begun.value())))
            }

            fn keyed(&self, key: &str) -> Result<Option<Place>> {
                Ok(ReadableTable::get(&self.keys, key)?.map(|at| Place::from_number(at.value())))
            }

            fn moved(&self, id: TimerId) -> Result<Option<i64>> {
                Ok(ReadableTable::get(&self.moved, id.place().to_number())?.map(|due| due.value()))
            }

            fn about(&self) -> &About {
                &self.about
            }

            fn buried_row(&self, id: TimerId) -> Result<Option<Stored>> {
                let id = id.place().to_number();
                let buried = ReadableTable::get(&self.buried, id)?;
                Ok(buried.and_then(|buried| buried_row(&self.damaged, id, buried.value())))
            }

            fn buried_keyed(&self, key: &str) -> Result<Vec<TimerId>> {
                let of_key = ReadableTable::range(&self.buried_keys, (key, 0)..=(key, u128::MAX))?;
                of_key.map(|entry| Ok(TimerId::from_bytes(entry?.0.value().1.to_be_bytes()))).collect()
            }

            fn ended_from(&self, kind: &str, from: Place) -> Result<Option<(Place, Shown)>> {
                for entry in ReadableTable::range(&self.ended, (kind, from.to_number())..=(kind, u128::MAX))? {
                    let (key, value) = entry?;
                    let at = key.value().1;
                    if let Some(shown) = past(at, value.value()) {
                        return Ok(Some((Place::from_number(at), shown)));
                    }
                }
                Ok(None)
            }

            fn ended_named(&self, which: &Which) -> Result<Vec<(String, Place)>> {
                let name = name(which);
                let named = ReadableTable::range(&self.ended_names, (&*name, 0)..=(&*name, u128::MAX))?;
                named
                    .map(|entry| {
                        let (of, kind) = entry?;
                        Ok((kind.value().to_owned(), Place::from_number(of.value().1)))
                    })
                    .collect()
            }

            fn counts(&self) -> Result<Counts> {
                let begun = self.begun.len()?;
                let (stored, buried) = (self.timers.len()?.saturating_sub(begun), self.buried.len()?);
                Ok(Counts { stored, begun, buried, is_estimate: false })
            }

            fn heads(&self, after: Place, only_series: bool) -> Each<'_, Head, RedbError> {
                let mut last = after.to_number();
                let beyond = (Excluded(last), Unbounded);
                if only_series {
                    let series = ReadableTable::range(&self.series, beyond)?;
                    let heads = series.map(|entry| {
                        let at = entry?.0.value();
                        let timer = ReadableTable::get(&self.timers, at)?;
                        Ok(timer.and_then(|bytes| head(&self.damaged, at, bytes.value())))
                    });
                    return Ok(Box::new(heads.filter_map(Result::transpose)));
                }
                // A misled range begins too late, and passes timers.
                runs::check_order(&self.timers, last)?;
                let timers = ReadableTable::range(&self.timers, beyond)?;
                let heads = timers.map(move |entry| {
                    let (at, bytes) = entry?;
                    if at.value() <= last {
                        return Err(RedbError::Reordered { path: None });
                    }
                    last = at.value();
                    Ok(head(&self.damaged, last, bytes.value()))
                });
                Ok(Box::new(heads.filter_map(Result::transpose)))
            }

            fn damaged(&self, after: Place) -> Result<Vec<Shown>> {
                let mut found = Vec::new();
                for entry in ReadableTable::iter(&self.damaged_rows)? {
                    let (of, bytes) = entry?;
                    let id = TimerId::from_bytes(of.value().1.to_be_bytes());
                    let mut shown =
                        Shown::new(NewTimer::new(id, String::new(), bytes.value()).into(), Phase::Damaged);
                    shown.damage =
                        Some("its bytes are not as they were written; the payload is all of them".to_owned());
                    found.push(shown);
                }
                found.retain(|shown| shown.timer.timer.place() > after);
                found.sort_unstable_by_key(|shown| shown.timer.timer.place());
                Ok(found)
            }

            fn buried(&self, after: Place) -> Each<'_, Stored, RedbError> {
                let buried = ReadableTable::range(&self.buried, (Excluded(after.to_number()), Unbounded))?;
                let rows = buried.map(|entry| {
                    let (id, buried) = entry?;
                    Ok(buried_row(&self.damaged, id.value(), buried.value()))
                });
                Ok(Box::new(rows.filter_map(Result::transpose)))
            }
        })*
    };
}

lookup!(RedbTables<'_> RedbReads);

impl Tables for RedbTables<'_> {
    fn put(&mut self, row: &Stored) -> Result<()> {
        let at = row.timer.place().to_number();
        if row.series.is_some() {
            self.series.insert(at, ())?;
        }
        self.timers.insert(at, row.to_bytes(at).as_slice())?;
        Ok(())
    }

    fn rows(&self, places: &[Place]) -> Result<Vec<Option<Stored>>> {
        let read = |at, bytes: &[u8]| Ok(note(&self.damaged, (false, at), Stored::from_bytes(at, bytes)));
        let numbers = numbers(places);
        let rows = runs::get(&self.timers, &numbers, read)?;
        self.check_missed(&numbers, &rows)?;
        Ok(rows.into_iter().map(Option::flatten).collect())
    }

    /// Damaged bytes stay where they are, for [`keep_damaged`](Self::keep_damaged).
    fn take_all(&mut self, places: &[Place]) -> Result<Vec<Option<Stored>>> {
        let (numbers, damaged) = (numbers(places), &self.damaged);
        let rows = runs::take(&mut self.timers, &numbers, |at, bytes| {
            Ok(note(damaged, (false, at), Stored::from_bytes(at, bytes)))
        })?;
        self.check_missed(&numbers, &rows)?;
        for (at, row) in numbers.into_iter().zip(&rows) {
            if row.as_ref().is_some_and(|row| row.series.is_some()) {
                self.series.remove(at)?;
            }
        }
        Ok(rows)
    }

    fn set_attempt(&mut self, at: Place, attempt: Option<BegunBy>) -> Result<Option<BegunBy>> {
        let before = match attempt {
            Some(attempt) => self.begun.insert(at.to_number(), begun(attempt))?,
            None => self.begun.remove(at.to_number())?,
        };
        Ok(before.map(|before| begun_by(before.value())))
    }

    fn take_attempts(&mut self, places: &[Place]) -> Result<Vec<Option<BegunBy>>> {
        runs::take(&mut self.begun, &numbers(places), |_, begun| Ok(Some(begun_by(begun))))
    }

    fn begun_by(&self, epoch: u64) -> Result<Vec<(Place, BegunBy)>> {
        let mut found = Vec::new();
        for entry in self.begun.iter()? {
            let (at, begun) = entry?;
            let begun = begun_by(begun.value());
            if begun.epoch == epoch {
                found.push((Place::from_number(at.value()), begun));
            }
        }
        Ok(found)
    }

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<()> {
        match at {
            Some(at) => drop(self.keys.insert(key, at.to_number())?),
            None => drop(self.keys.remove(key)?),
        }
        Ok(())
    }

    fn set_moved(&mut self, id: TimerId, due_ms: Option<i64>) -> Result<()> {
        let id = id.place().to_number();
        match due_ms {
            Some(due_ms) => drop(self.moved.insert(id, due_ms)?),
            None => drop(self.moved.remove(id)?),
        }
        Ok(())
    }

    fn bury(&mut self, row: &Stored, reason: &str) -> Result<()> {
        let id = row.timer.id.place().to_number();
        self.buried.insert(id, (reason, row.to_bytes(id).as_slice()))?;
        if let Some(key) = &row.key {
            self.buried_keys.insert((key.as_str(), id), ())?;
        }
        Ok(())
    }

    fn unbury(&mut self, row: &Stored) -> Result<()> {
        let id = row.timer.id.place().to_number();
        self.buried.remove(id)?;
        if let Some(key) = &row.key {
            self.buried_keys.remove((key.as_str(), id))?;
        }
        Ok(())
    }

    fn put_ended(&mut self, at: Place, Shown { timer, phase, .. }: &Shown) -> Result<()> {
        let (at, place) = (at.to_number(), timer.timer.place().to_number());
        let attempt = match timer.state {
            State::Begun { epoch, attempt: number } => {
                Some(begun(BegunBy { epoch, number, at: timer.times.begun }))
            }
            _ => None,
        };
        let reason = match &timer.state {
            State::Buried(Buried { reason }) => Some(reason.as_str()),
            _ => None,
        };
        let (kind, bytes) = (timer.kind.as_str(), timer.to_bytes(place));
        self.ended.insert((kind, at), (phase.name(), place, attempt, reason, bytes.as_slice()))?;
        for which in names(timer) {
            self.ended_names.insert((name(&which).as_str(), at), kind)?;
        }
        Ok(())
    }

    fn take_ended(&mut self, at: Place, Shown { timer, .. }: &Shown) -> Result<()> {
        let at = at.to_number();
        self.ended.remove((timer.kind.as_str(), at))?;
        for which in names(timer) {
            self.ended_names.remove((name(&which).as_str(), at))?;
        }
        Ok(())
    }

    fn about_mut(&mut self) -> &mut About {
        self.is_about_new = true;
        &mut self.about
    }
}

impl RedbReads {
    /// The damaged timers among those that were read.
    pub(super) fn damaged(self) -> Damaged {
        self.damaged.into_inner()
    }
}
