//! The store in memory.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::id::{Place, TimerId};
use crate::store::{
    Ask, Begun, Counts, Ended, Loaded, Move, NewTimer, Owner, Page, Removal, Saved, Settled, Store, Stored,
    Taken, ToBegin, Which,
};
use crate::tables::{self, Attempt, Head, Lookup, ReadTables, Row, ShowHeads, ShowRows, Tables};

/// A store in memory, for tests: it outlives the [`Durable`](crate::Durable) on it, and not the process.
///
/// Clones are the same store. So a test that gives one to a `Durable`, stops that, and gives a clone to the next, has
/// restarted.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Maps>>);

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A panic under the lock is a fault of this crate, and leaves no half of a change that was not there before.
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    type Error = Infallible;

    async fn join(&self, _lease: Duration) -> Result<Owner, Infallible> {
        tables::join(&mut *self.maps())
    }

    async fn leave(&self, owner: Owner) -> Result<u64, Infallible> {
        tables::leave(&mut *self.maps(), owner)
    }

    async fn save(&self, timers: Vec<NewTimer>) -> Result<Vec<Saved>, Infallible> {
        let mut maps = self.maps();
        timers.into_iter().map(|timer| tables::save(&mut *maps, timer)).collect()
    }

    async fn load(&self, owner: Owner, ask: Ask) -> Result<Loaded, Infallible> {
        tables::load(&*self.maps(), owner, &ask)
    }

    async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>, Infallible> {
        tables::begin(&mut *self.maps(), owner, &ask)
    }

    async fn settle(&self, owner: Owner, ends: Vec<Ended>) -> Result<Vec<Settled>, Infallible> {
        tables::settle(&mut *self.maps(), owner, ends)
    }

    async fn cancel(&self, which: Vec<Which>) -> Result<Vec<Removal>, Infallible> {
        let mut maps = self.maps();
        which.iter().map(|which| tables::cancel(&mut *maps, which)).collect()
    }

    async fn get(&self, which: Which) -> Result<Option<Stored>, Infallible> {
        tables::get(&*self.maps(), &which)
    }

    async fn reschedule(&self, which: Which, due: Timestamp) -> Result<Move, Infallible> {
        tables::reschedule(&mut *self.maps(), &which, due)
    }

    async fn unbury(&self, ids: Vec<TimerId>, due: Option<Timestamp>) -> Result<Vec<Taken>, Infallible> {
        let mut maps = self.maps();
        ids.into_iter().map(|id| tables::unbury(&mut *maps, id, due)).collect()
    }

    async fn list(&self, page: Page) -> Result<Vec<Stored>, Infallible> {
        tables::list(&*self.maps(), &page)
    }

    async fn count(&self) -> Result<Counts, Infallible> {
        Ok(self.maps().counts())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("counts", &self.maps().counts()).finish()
    }
}

/// The six maps.
#[derive(Default)]
struct Maps {
    rows: BTreeMap<Place, Row>,
    attempts: BTreeMap<Place, Attempt>,
    keyed: HashMap<String, Place>,
    moved: HashMap<TimerId, i64>,
    buried: BTreeMap<TimerId, (Row, String)>,
    epoch: u64,
}

impl Maps {
    fn counts(&self) -> Counts {
        let [rows, begun, buried] =
            [self.rows.len(), self.attempts.len(), self.buried.len()].map(|len| len as u64);
        Counts { stored: rows - begun, begun, buried }
    }
}

impl Lookup for Maps {
    type Error = Infallible;

    fn row(&self, at: Place) -> Result<Option<Row>, Infallible> {
        Ok(self.rows.get(&at).cloned())
    }

    fn attempt(&self, at: Place) -> Result<Option<Attempt>, Infallible> {
        Ok(self.attempts.get(&at).copied())
    }

    fn keyed(&self, key: &str) -> Result<Option<Place>, Infallible> {
        Ok(self.keyed.get(key).copied())
    }

    fn moved(&self, id: TimerId) -> Result<Option<i64>, Infallible> {
        Ok(self.moved.get(&id).copied())
    }

    fn epoch(&self) -> Result<u64, Infallible> {
        Ok(self.epoch)
    }
}

impl Tables for Maps {
    fn put(&mut self, at: Place, row: &Row) -> Result<(), Infallible> {
        self.rows.insert(at, row.clone());
        Ok(())
    }

    fn take(&mut self, at: Place) -> Result<Option<Row>, Infallible> {
        Ok(self.rows.remove(&at))
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

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<(), Infallible> {
        match at {
            Some(at) => self.keyed.insert(key.to_owned(), at),
            None => self.keyed.remove(key),
        };
        Ok(())
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

    fn set_epoch(&mut self, epoch: u64) -> Result<(), Infallible> {
        self.epoch = epoch;
        Ok(())
    }
}

impl ReadTables for Maps {
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

    fn series(&self, after: Place, show: ShowRows<'_, Infallible>) -> Result<(), Infallible> {
        ReadTables::rows(self, after, &mut |at, row| {
            if row.series.is_some() { show(at, row) } else { Ok(ControlFlow::Continue(())) }
        })
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
