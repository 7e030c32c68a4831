//! The six maps, in memory.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::ControlFlow;

use crate::id::{Place, TimerId};
use crate::store::Counts;
use crate::tables::{Attempt, Head, ReadTables, Row, ShowHeads, ShowRows, Tables};

#[derive(Default)]
pub(super) struct Maps {
    rows: BTreeMap<Place, Row>,
    attempts: BTreeMap<Place, Attempt>,
    keyed: HashMap<String, Place>,
    moved: HashMap<TimerId, i64>,
    buried: BTreeMap<TimerId, (Row, String)>,
    epoch: u64,
}

impl Maps {
    pub(super) fn counts(&self) -> Counts {
        let [rows, begun, buried] =
            [self.rows.len(), self.attempts.len(), self.buried.len()].map(|len| len as u64);
        Counts { stored: rows - begun, begun, buried }
    }
}

impl Tables for Maps {
    type Error = Infallible;

    fn row(&self, at: Place) -> Result<Option<Row>, Infallible> {
        Ok(self.rows.get(&at).cloned())
    }

    fn put(&mut self, at: Place, row: &Row) -> Result<(), Infallible> {
        self.rows.insert(at, row.clone());
        Ok(())
    }

    fn take(&mut self, at: Place) -> Result<Option<Row>, Infallible> {
        Ok(self.rows.remove(&at))
    }

    fn attempt(&self, at: Place) -> Result<Option<Attempt>, Infallible> {
        Ok(self.attempts.get(&at).copied())
    }

    fn set_attempt(&mut self, at: Place, attempt: Option<Attempt>) -> Result<Option<Attempt>, Infallible> {
        Ok(match attempt {
            Some(attempt) => self.attempts.insert(at, attempt),
            None => self.attempts.remove(&at),
        })
    }

    fn begun_up_to(&self, epoch: u64) -> Result<Vec<(Place, Attempt)>, Infallible> {
        let begun = self.attempts.iter().map(|(&at, &attempt)| (at, attempt));
        Ok(begun.filter(|(_, attempt)| attempt.epoch <= epoch).collect())
    }

    fn keyed(&self, key: &str) -> Result<Option<Place>, Infallible> {
        Ok(self.keyed.get(key).copied())
    }

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<(), Infallible> {
        match at {
            Some(at) => self.keyed.insert(key.to_owned(), at),
            None => self.keyed.remove(key),
        };
        Ok(())
    }

    fn moved(&self, id: TimerId) -> Result<Option<i64>, Infallible> {
        Ok(self.moved.get(&id).copied())
    }

    fn set_moved(&mut self, id: TimerId, due_ms: Option<i64>) -> Result<(), Infallible> {
        match due_ms {
            Some(due_ms) => self.moved.insert(id, due_ms),
            None => self.moved.remove(&id),
        };
        Ok(())
    }

    fn bury(&mut self, id: TimerId, row: &Row, reason: &str) -> Result<(), Infallible> {
        self.buried.insert(id, (row.clone(), reason.to_owned()));
        Ok(())
    }

    fn buried_row(&self, id: TimerId) -> Result<Option<Row>, Infallible> {
        Ok(self.buried.get(&id).map(|(row, _)| row.clone()))
    }

    fn unbury(&mut self, id: TimerId) -> Result<(), Infallible> {
        self.buried.remove(&id);
        Ok(())
    }

    fn epoch(&self) -> Result<u64, Infallible> {
        Ok(self.epoch)
    }

    fn set_epoch(&mut self, epoch: u64) -> Result<(), Infallible> {
        self.epoch = epoch;
        Ok(())
    }
}

impl ReadTables for Maps {
    type Error = Infallible;

    fn epoch(&self) -> Result<u64, Infallible> {
        Ok(self.epoch)
    }

    fn attempt(&self, at: Place) -> Result<Option<Attempt>, Infallible> {
        Tables::attempt(self, at)
    }

    fn heads(&self, after: Place, show: ShowHeads<'_, Infallible>) -> Result<(), Infallible> {
        for (&at, row) in self.rows.range((Excluded(after), Unbounded)) {
            if show(at, Head { id: row.id, kind: &row.kind })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn rows(&self, after: Place, show: ShowRows<'_, Infallible>) -> Result<(), Infallible> {
        for (&at, row) in self.rows.range((Excluded(after), Unbounded)) {
            if show(at, row.clone())?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn buried(
        &self,
        after: TimerId,
        show: &mut dyn FnMut(Row, String) -> ControlFlow<()>,
    ) -> Result<(), Infallible> {
        for (row, reason) in self.buried.range((Excluded(after), Unbounded)).map(|(_, buried)| buried) {
            if show(row.clone(), reason.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }
}
