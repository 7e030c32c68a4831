//! Open transactions of users, which hold locks.

use std::sync::Arc;

use timingwheel_durable::TimerId;
use timingwheel_durable::store::{NewTimer, Removal, Saved, Which};
use tokio::time::sleep;

use super::{at, key};
use crate::db::{Db, Lock, shard};
use crate::history::Told;
use crate::lack::Lack;
use crate::network::{World, lock, ms};
use crate::payload::{kind, payload};
use crate::script::Job;

/// An open transaction, which holds locks until it ends in whatever way.
pub(super) struct Open {
    world: Arc<World>,
    generation: u64,
    locks: Vec<Lock>,
}

impl Open {
    /// Waits until nobody else has the timer of this name, or the key.
    pub(super) async fn begin(world: &Arc<World>, which: &Which) -> Self {
        let mut open = Self { world: Arc::clone(world), generation: 0, locks: Vec::new() };
        loop {
            let released = world.released.notified();
            open.generation = lock(&world.faults).generation;
            let is_up = world.now() >= lock(&world.faults).down;
            {
                let mut db = lock(&world.db);
                if is_up && !db.waits(which) {
                    open.locks = db
                        .get(which)
                        .map(|stored| Lock::Timer(stored.timer.id().unique()))
                        .into_iter()
                        .collect();
                    if let Which::Key(key) = which {
                        open.locks.push(Lock::Key(key.clone()));
                    }
                    db.locks.extend(open.locks.iter().cloned());
                    return open;
                }
            }
            if *world.over.borrow() {
                return open;
            } else if is_up {
                released.await;
            } else {
                sleep(ms(500)).await;
            }
        }
    }

    /// Does all of it at once. `None`: the server has ended it before.
    pub(super) fn commit<T>(mut self, inst: usize, work: impl FnOnce(&mut Db) -> T) -> Option<T> {
        let world = Arc::clone(&self.world);
        let faults = {
            let faults = lock(&world.faults);
            world.now() < faults.down.max(faults.read_only) || faults.generation != self.generation
        };
        if faults || *world.over.borrow() {
            return None;
        }
        let locks = std::mem::take(&mut self.locks);
        let done = world.transact(inst, |db| {
            locks.iter().for_each(|lock| {
                db.locks.remove(lock);
            });
            work(db)
        });
        world.released.notify_waiters();
        Some(done)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if lock(&self.world.faults).generation == self.generation {
            let mut db = lock(&self.world.db);
            self.locks.iter().for_each(|lock| {
                db.locks.remove(lock);
            });
        }
        self.world.released.notify_waiters();
    }
}

pub(super) async fn save_in(
    world: &Arc<World>,
    held: u32,
    due_in_ms: i64,
    replaces: bool,
    job: &Job,
    holds_ms: i64,
    commits: bool,
) -> Told {
    let open = Open::begin(world, &Which::Key(key(held))).await;
    let due = at(world.db_ms() + due_in_ms);
    sleep(ms(holds_ms)).await;
    if !commits {
        return Told::Other("rolled back".into());
    }
    let done = open.commit(usize::MAX, |db| {
        let id = TimerId::new(due, db.next_number());
        let key = Some(key(held));
        let timer = NewTimer { key, replaces, ..NewTimer::new(id, kind(job.kind), payload(job)) };
        let saved = db.save(&[timer]).and_then(|mut saved| saved.pop());
        if let Some(Saved::Stored(id) | Saved::Replaced { id, .. } | Saved::Follows { id, .. }) = saved
            && due.as_millisecond() - db.now_ms < 120_000
            && db.has(Lack::HintsOfTransactions)
        {
            db.notes.push(Some((shard(id.unique()), due.as_millisecond())));
        }
        saved
    });
    match done.flatten() {
        Some(Saved::KeyTaken(_)) => Told::KeyTaken,
        Some(saved) => saved.id().map_or(Told::NotFound, Told::Saved),
        None => Told::Failed("the server has ended it".into()),
    }
}

pub(super) async fn cancel_in(world: &Arc<World>, held: u32, holds_ms: i64, commits: bool) -> Told {
    let which = Which::Key(key(held));
    let open = Open::begin(world, &which).await;
    sleep(ms(holds_ms)).await;
    if !commits {
        return Told::Other("rolled back".into());
    }
    match open.commit(usize::MAX, |db| db.cancel(&which)) {
        Some(Some(Removal::Removed(_))) => Told::Removed,
        Some(Some(Removal::Running(..))) => Told::Running,
        Some(_) => Told::NotFound,
        None => Told::Failed("the server has ended it".into()),
    }
}
