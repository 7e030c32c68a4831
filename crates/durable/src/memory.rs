//! The store in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Clock;
use crate::id::{Place, TimerId};
use crate::store::{
    Ask, Begun, Buried, Counts, Effects, Ended, Filter, Histories, Kinds, Loaded, Looked, Move, NewTimer,
    Owner, Paused, Picked, Removal, Saved, Settled, Shown, Sight, State, Store, Stored, Taken, Tally,
    ToBegin, Which, all_calls,
};
use crate::tables::{About, BegunBy, Each, Head, Lookup, Tables, over_maps};

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

    async fn read<T>(&self, work: impl FnOnce(&Maps) -> Result<T, Infallible>) -> Result<T, Infallible> {
        work(&self.maps())
    }

    async fn write<T>(&self, work: impl FnOnce(&mut Maps) -> Result<T, Infallible>) -> Result<T, Infallible> {
        let mut maps = self.maps();
        maps.about.now = maps.clock.as_ref().map(|clock| clock.now());
        work(&mut maps)
    }

    /// A panic under the lock is a fault of this crate, and leaves no half of a change that was not there before.
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    type Error = Infallible;

    all_calls! { over_maps }

    fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.maps().clock = Some(clock);
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("timers", &self.maps().rows.len()).finish()
    }
}

/// The five maps, and more.
#[derive(Default)]
struct Maps {
    rows: BTreeMap<Place, Stored>,
    attempts: BTreeMap<Place, BegunBy>,
    keyed: BTreeMap<String, Place>,
    moved: BTreeMap<TimerId, i64>,
    buried: BTreeMap<Place, Stored>,
    ended: BTreeMap<(String, Place), Shown>,
    about: About,
    clock: Option<Arc<dyn Clock>>,
}

/// Returns the value before.
fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}

impl Lookup for Maps {
    type Error = Infallible;

    fn row(&self, at: Place) -> Result<Option<Stored>, Infallible> {
        Ok(self.rows.get(&at).cloned())
    }

    fn attempt(&self, at: Place) -> Result<Option<BegunBy>, Infallible> {
        Ok(self.attempts.get(&at).copied())
    }

    fn keyed(&self, key: &str) -> Result<Option<Place>, Infallible> {
        Ok(self.keyed.get(key).copied())
    }

    fn moved(&self, id: TimerId) -> Result<Option<i64>, Infallible> {
        Ok(self.moved.get(&id).copied())
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn buried_row(&self, id: TimerId) -> Result<Option<Stored>, Infallible> {
        Ok(self.buried.get(&id.place()).cloned())
    }

    fn buried_keyed(&self, key: &str) -> Result<Vec<TimerId>, Infallible> {
        let of_key = |row: &&Stored| row.key.as_deref() == Some(key);
        Ok(self.buried.values().filter(of_key).map(|row| row.timer.id).collect())
    }

    fn ended_from(&self, kind: &str, from: Place) -> Result<Option<(Place, Shown)>, Infallible> {
        let mut ended = self.ended.range((kind.to_owned(), from)..).take_while(|((of, _), _)| of == kind);
        Ok(ended.next().map(|((_, at), ended)| (*at, ended.clone())))
    }

    fn ended_named(&self, which: &Which) -> Result<Vec<(String, Place)>, Infallible> {
        let is_it = |timer: &Stored| match which {
            Which::Id(id) => timer.timer.id == *id,
            Which::Key(key) => timer.key.as_ref() == Some(key),
        };
        Ok(self.ended.iter().filter(|(_, ended)| is_it(&ended.timer)).map(|(at, _)| at.clone()).collect())
    }

    fn counts(&self) -> Result<Counts, Infallible> {
        let [rows, begun, buried] =
            [self.rows.len(), self.attempts.len(), self.buried.len()].map(|len| len as u64);
        Ok(Counts { stored: rows - begun, begun, buried, is_estimate: false })
    }

    fn heads(&self, after: Place, only_series: bool) -> Each<'_, Head, Infallible> {
        let rows = self.rows.range((Excluded(after), Unbounded)).map(|(_, row)| row);
        let rows = rows.filter(move |row| row.series.is_some() || !only_series);
        Ok(Box::new(rows.map(|row| Ok(Head { timer: row.timer, kind: row.kind.clone() }))))
    }

    fn buried(&self, after: Place) -> Each<'_, Stored, Infallible> {
        Ok(Box::new(self.buried.range((Excluded(after), Unbounded)).map(|(_, row)| Ok(row.clone()))))
    }
}

impl Tables for Maps {
    fn put(&mut self, row: &Stored) -> Result<(), Infallible> {
        self.rows.insert(row.timer.place(), row.clone());
        Ok(())
    }

    fn take_all(&mut self, places: &[Place]) -> Result<Vec<Option<Stored>>, Infallible> {
        Ok(places.iter().map(|at| self.rows.remove(at)).collect())
    }

    fn set_attempt(&mut self, at: Place, attempt: Option<BegunBy>) -> Result<Option<BegunBy>, Infallible> {
        Ok(set(&mut self.attempts, at, attempt))
    }

    fn begun_by(&self, epoch: u64) -> Result<Vec<(Place, BegunBy)>, Infallible> {
        let begun = self.attempts.iter().map(|(&at, &attempt)| (at, attempt));
        Ok(begun.filter(|(_, attempt)| attempt.epoch == epoch).collect())
    }

    fn set_keyed(&mut self, key: &str, at: Option<Place>) -> Result<(), Infallible> {
        set(&mut self.keyed, key.to_owned(), at);
        Ok(())
    }

    fn set_moved(&mut self, id: TimerId, due_ms: Option<i64>) -> Result<(), Infallible> {
        set(&mut self.moved, id, due_ms);
        Ok(())
    }

    fn bury(&mut self, row: &Stored, reason: &str) -> Result<(), Infallible> {
        let state = State::Buried(Buried::new(reason));
        self.buried.insert(row.timer.id.place(), Stored { state, ..row.clone() });
        Ok(())
    }

    fn unbury(&mut self, row: &Stored) -> Result<(), Infallible> {
        self.buried.remove(&row.timer.id.place());
        Ok(())
    }

    fn put_ended(&mut self, at: Place, ended: &Shown) -> Result<(), Infallible> {
        self.ended.insert((ended.timer.kind.clone(), at), ended.clone());
        Ok(())
    }

    fn take_ended(&mut self, at: Place, ended: &Shown) -> Result<(), Infallible> {
        self.ended.remove(&(ended.timer.kind.clone(), at));
        Ok(())
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Change, Near, Put};

    #[tokio::test]
    async fn nothing_is_left_of_timers_that_have_gone() {
        let (store, kinds) = (MemoryStore::new(), Arc::new(["kind".to_owned()].into()));
        let due = |second| Timestamp::from_second(second).unwrap();
        let timer = |number: u64| NewTimer {
            key: Some(format!("key {}", number % 8)),
            replaces: true,
            ..NewTimer::new(TimerId::new(due(1), number), "kind", b"0")
        };
        // The last one replaces the first.
        store.save((0..=8).map(timer).collect()).await.unwrap();
        let owner = store.join(Duration::ZERO, Kinds::clone(&kinds)).await.unwrap();
        for number in 2..6 {
            store.reschedule(timer(number).id.into(), due(2)).await.unwrap();
        }
        let moved = |number: u64| Near::new(timer(number).id, due(2));
        let timers =
            (4..6).map(moved).chain((6..8).map(|number| timer(number).id.into())).collect::<Vec<_>>();
        store.begin(owner, ToBegin { timers: timers.clone(), kinds }).await.unwrap();
        let again = Put { timer: timers[1], series: None, attempts: 1, error: None };
        let bury = Change::Bury { reason: "why".into(), was_called: true, next: None };
        let changes = [Change::Delete, Change::Put(again), bury, Change::Delete];
        let ends = timers.into_iter().zip(changes);
        let ends = ends.map(|(timer, change)| Ended { timer, attempt: 1, version: 0, change });
        assert_eq!(store.settle(owner, ends.collect()).await.unwrap(), [const { Settled::Done }; 4]);
        for number in [1, 2, 3, 5, 6, 8] {
            let removed = store.cancel(timer(number).id.into()).await.unwrap();
            assert!(matches!(removed, Removal::Removed(_)), "{number}: {removed:?}");
        }
        let maps = store.maps();
        let left =
            (maps.rows.len(), maps.attempts.len(), maps.keyed.len(), maps.moved.len(), maps.buried.len());
        assert_eq!(left, (0, 0, 0, 0, 0));
    }
}
