//! The store in memory.

mod maps;

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::id::TimerId;
use crate::store::{
    Ask, Begun, Counts, Ended, Loaded, Move, NewTimer, Owner, Page, Removal, Saved, Settled, Store, Stored,
    Taken, ToBegin, Which,
};
use crate::tables;
use maps::Maps;

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
