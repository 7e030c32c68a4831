//! The six maps, in a transaction of redb.

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{RedbError, runs};
use crate::id::{Place, TimerId};
use crate::tables::{Attempt, Row, RowError, Tables};

/// The newest format of a file that this version knows, and the one that it writes.
pub(super) const FORMAT: u64 = 1;

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// By their places.
pub(super) const TIMERS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("timers");
/// By their places: epoch and attempt of those that have begun.
pub(super) const BEGUN: TableDefinition<'_, u128, (u64, u32)> = TableDefinition::new("begun");
/// The places of those that have a key.
pub(super) const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("keys");
/// By their ids: when those are due that are not due at the time of their id.
pub(super) const MOVED: TableDefinition<'_, u128, i64> = TableDefinition::new("moved");
/// By their ids: the reason, and the timer.
pub(super) const BURIED: TableDefinition<'_, u128, (&str, &[u8])> = TableDefinition::new("buried");

pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), RedbError> {
    RedbTables::open(transaction).map(drop)
}

pub(super) fn corrupt(what: &'static str, number: u128) -> impl FnOnce(RowError) -> RedbError {
    move |RowError| RedbError::Corrupt(format!("the {what} at {number:032x} cannot be read"))
}

pub(super) fn read_row(number: u128, bytes: &[u8]) -> Result<Row, RedbError> {
    Row::from_bytes(Place::from_number(number).unique, bytes).map_err(corrupt("timer", number))
}

fn numbers(places: &[Place]) -> Vec<u128> {
    places.iter().map(|at| at.to_number()).collect()
}

pub(super) struct RedbTables<'t> {
    meta: Table<'t, &'static str, u64>,
    timers: Table<'t, u128, &'static [u8]>,
    begun: Table<'t, u128, (u64, u32)>,
    keys: Table<'t, &'static str, u128>,
    moved: Table<'t, u128, i64>,
    buried: Table<'t, u128, (&'static str, &'static [u8])>,
}

impl<'t> RedbTables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, RedbError> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            timers: transaction.open_table(TIMERS)?,
            begun: transaction.open_table(BEGUN)?,
            keys: transaction.open_table(KEYS)?,
            moved: transaction.open_table(MOVED)?,
            buried: transaction.open_table(BURIED)?,
        })
    }
}

impl Tables for RedbTables<'_> {
    type Error = RedbError;

    fn row(&self, at: Place) -> Result<Option<Row>, RedbError> {
        let number = at.to_number();
        self.timers.get(number)?.map(|bytes| read_row(number, bytes.value())).transpose()
    }

    fn put(&mut self, at: Place, row: &Row) -> Result<(), RedbError> {
        self.timers.insert(at.to_number(), row.to_bytes().as_slice())?;
        Ok(())
    }

    fn take(&mut self, at: Place) -> Result<Option<Row>, RedbError> {
        let number = at.to_number();
        self.timers.remove(number)?.map(|bytes| read_row(number, bytes.value())).transpose()
    }

    fn rows(&self, places: &[Place]) -> Result<Vec<Option<Row>>, RedbError> {
        runs::get(&self.timers, &numbers(places), read_row)
    }

    fn take_all(&mut self, places: &[Place]) -> Result<Vec<Option<Row>>, RedbError> {
        runs::take(&mut self.timers, &numbers(places), read_row)
    }

    fn take_over(&mut self, places: &[Place]) -> Result<Vec<Option<Row>>, RedbError> {
        runs::take(&mut self.timers, &numbers(places), |number, bytes| {
            Row::over(Place::from_number(number), bytes).map_err(corrupt("timer", number))
        })
    }

    fn attempt(&self, at: Place) -> Result<Option<Attempt>, RedbError> {
        let begun = self.begun.get(at.to_number())?.map(|begun| begun.value());
        Ok(begun.map(|(epoch, number)| Attempt { epoch, number }))
    }

    fn set_attempt(&mut self, at: Place, attempt: Option<Attempt>) -> Result<Option<Attempt>, RedbError> {
        let before = match attempt {
            Some(Attempt { epoch, number }) => self.begun.insert(at.to_number(), (epoch, number))?,
            None => self.begun.remove(at.to_number())?,
        };
        let before = before.map(|before| before.value());
        Ok(before.map(|(epoch, number)| Attempt { epoch, number }))
    }

    fn set_attempts(&mut self, attempts: &[(Place, Attempt)]) -> Result<Vec<Option<Attempt>>, RedbError> {
        let entries: Vec<_> = attempts
            .iter()
            .map(|(at, Attempt { epoch, number })| (at.to_number(), (*epoch, *number)))
            .collect();
        let before = runs::insert(&mut self.begun, &entries)?;
        Ok(before.into_iter().map(|before| before.map(|(epoch, number)| Attempt { epoch, number })).collect())
    }

    fn take_attempts(&mut self, places: &[Place]) -> Result<Vec<Option<Attempt>>, RedbError> {
        let read = |_, (epoch, number)| Ok(Attempt { epoch, number });
        runs::take(&mut self.begun, &numbers(places), read)
    }

    fn begun_up_to(&self, epoch: u64) -> Result<Vec<(Place, Attempt)>, RedbError> {
        let mut found = Vec::new();
        for entry in self.begun.iter()? {
            let (at, begun) = entry?;
            let (by, number) = begun.value();
            if by <= epoch {
                found.push((Place::from_number(at.value()), Attempt { epoch: by, number }));
            }
        }
        Ok(found)
    }

    fn keyed(&self, key: &str) -> Result<Option<Place>, RedbError> {
        Ok(self.keys.get(key)?.map(|at| Place::from_number(at.value())))
    }

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<(), RedbError> {
        match at {
            Some(at) => drop(self.keys.insert(key, at.to_number())?),
            None => drop(self.keys.remove(key)?),
        }
        Ok(())
    }

    fn moved(&self, id: TimerId) -> Result<Option<i64>, RedbError> {
        Ok(self.moved.get(id.place().to_number())?.map(|due| due.value()))
    }

    fn set_moved(&mut self, id: TimerId, due_ms: Option<i64>) -> Result<(), RedbError> {
        let id = id.place().to_number();
        match due_ms {
            Some(due_ms) => drop(self.moved.insert(id, due_ms)?),
            None => drop(self.moved.remove(id)?),
        }
        Ok(())
    }

    fn bury(&mut self, id: TimerId, row: &Row, reason: &str) -> Result<(), RedbError> {
        self.buried.insert(id.place().to_number(), (reason, row.to_bytes().as_slice()))?;
        Ok(())
    }

    fn buried_row(&self, id: TimerId) -> Result<Option<Row>, RedbError> {
        let number = id.place().to_number();
        self.buried.get(number)?.map(|buried| read_row(number, buried.value().1)).transpose()
    }

    fn unbury(&mut self, id: TimerId) -> Result<(), RedbError> {
        self.buried.remove(id.place().to_number())?;
        Ok(())
    }

    fn epoch(&self) -> Result<u64, RedbError> {
        Ok(self.meta.get("epoch")?.map_or(0, |epoch| epoch.value()))
    }

    fn set_epoch(&mut self, epoch: u64) -> Result<(), RedbError> {
        self.meta.insert("epoch", epoch)?;
        Ok(())
    }
}
