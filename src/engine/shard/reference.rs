//! The reference that a timer has to its shard, and the one that a thread keeps for its next timer.
//!
//! To count a reference and to uncount it takes two locked instructions, a sixth of what arming and cancelling costs.
//! So a thread keeps the reference of a timer that it dropped, its spare, and the next timer that it makes in that
//! shard takes it over.
//!
//! Spares must not keep a wheel from ending. While the wheel has a handle it does not end anyway. Once the last handle
//! is gone, no timer is made any more and no spare is used: of the references to a shard, some are spares for good, and
//! the others are timers, but for one that the driver has while it turns. Each thread tells in its [`Place`] of which
//! shard its spare is, and
//!
//! | who | does |
//! |---|---|
//! | the last handle | says that it is gone, and wakes the driver |
//! | a thread that drops a timer | tells of its spare, and looks whether a handle is left; if none is, it gives the reference up instead, and wakes the driver if there may be no others but spares and the driver's own |
//! | the driver, once no handle is left | counts references, having none of its own, then spares, and ends if there are as many; looks again now and then |
//!
//! It never ends too early: as references only get fewer, what is counted first may be too many references, and what is
//! counted then may be too few spares, but never the other way round.
//!
//! It may miss the end: a thread that has looked for a handle, just before the last one went, and has not done with its
//! reference when the driver counts, wakes nobody. To order the two would take the locked instruction that all this
//! saves. So the driver looks again: a second later, and then after twice the time, up to a minute. While a clock is
//! paused it does not, as that would go on to the time of the next look.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Shard;
use crate::platform::sync::OwnLines;

/// What a timer holds its shard by.
#[derive(Debug)]
pub(crate) struct ShardRef {
    /// There until this is dropped.
    shard: Option<Arc<Shard>>,
}

impl ShardRef {
    /// For whoever has a handle.
    #[inline]
    pub(crate) fn new(shard: &Arc<Shard>) -> Self {
        // A thread that is about to end has no spare any more. In a model all threads are one.
        let spare = if cfg!(all(test, loom)) {
            None
        } else {
            SPARE.try_with(|spare| spare.take(shard)).ok().flatten()
        };
        Self { shard: Some(spare.unwrap_or_else(|| shard.clone())) }
    }
}

impl Deref for ShardRef {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        self.shard.as_deref().expect("only `drop` takes it")
    }
}

impl Drop for ShardRef {
    #[inline]
    fn drop(&mut self) {
        if cfg!(all(test, loom)) {
            return;
        }
        // What was there before is given up; all of it, where a thread is about to end. That comes last, because with
        // the last reference to a shard code of a user's may be dropped.
        let kept = SPARE.try_with(|spare| spare.keep(self.shard.take()));
        if let Some(shard) = kept.unwrap_or_else(|_| self.shard.take()) {
            give_up(shard);
        }
    }
}

/// Uncounts a reference. If no handle is left, spares may be all that is.
fn give_up(shard: Arc<Shard>) {
    if shard.is_orphaned() {
        give_up_orphan(shard);
    }
}

#[cold]
fn give_up_orphan(shard: Arc<Shard>) {
    let (alarm, left) = (shard.alarm.clone(), Arc::downgrade(&shard));
    drop(shard);
    // Relaxed: what is not seen yet the driver finds when it looks again.
    let of_spares_and_driver = SPARES.load(Ordering::Relaxed) + 1;
    if left.strong_count() <= of_spares_and_driver {
        alarm.wake_to_end();
    }
}

/// For the driver, once no handle is left, while it has no reference of its own: whether nobody holds a shard but
/// threads that keep it as their spare.
pub(crate) fn only_spares_hold(shard: &Weak<Shard>) -> bool {
    let references = shard.strong_count();
    // Counted before the spares.
    fence(Ordering::Acquire);
    let address = shard.as_ptr().addr();
    let is_of_it =
        |place: &Weak<Place>| place.upgrade().is_some_and(|place| place.load(Ordering::Relaxed) == address);
    references <= places().iter().filter(|place| is_of_it(place)).count()
}

thread_local!(static SPARE: Spare = Spare::new());

/// What a thread keeps.
struct Spare {
    shard: Cell<Option<Arc<Shard>>>,
    place: Arc<Place>,
}

/// Where a thread tells of which shard its spare is: by the shard's address, or 0. It alone writes here.
type Place = OwnLines<AtomicUsize>;

/// How many threads may keep a spare.
static SPARES: AtomicUsize = AtomicUsize::new(0);

/// The places of these threads, and of some that have ended.
static PLACES: Mutex<Vec<Weak<Place>>> = Mutex::new(Vec::new());

fn places() -> MutexGuard<'static, Vec<Weak<Place>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    #[cold]
    fn new() -> Self {
        let place = Arc::new(OwnLines(AtomicUsize::new(0)));
        let mut places = places();
        places.retain(|place| place.strong_count() > 0);
        places.push(Arc::downgrade(&place));
        SPARES.fetch_add(1, Ordering::Relaxed);
        Self { shard: Cell::new(None), place }
    }

    /// Takes the spare, if it is of that shard.
    #[inline]
    fn take(&self, shard: &Arc<Shard>) -> Option<Arc<Shard>> {
        if self.place.load(Ordering::Relaxed) != Arc::as_ptr(shard).addr() {
            return None;
        }
        self.place.store(0, Ordering::Relaxed);
        self.shard.take()
    }

    /// Keeps a reference, unless its wheel has no handle, and returns the one that is not needed.
    #[inline]
    fn keep(&self, shard: Option<Arc<Shard>>) -> Option<Arc<Shard>> {
        let shard = shard?;
        let address = Arc::as_ptr(&shard).addr();
        if self.place.load(Ordering::Relaxed) == address {
            self.uncount(shard);
            return None;
        }
        // Told before the one before is given up, and before looking for a handle.
        self.place.store(address, Ordering::Relaxed);
        let is_orphaned = shard.is_orphaned();
        let before = self.shard.replace(Some(shard));
        if is_orphaned {
            self.give_up();
        }
        before
    }

    /// Gives up a reference of which there is a spare.
    #[inline]
    fn uncount(&self, shard: Arc<Shard>) {
        drop(shard);
        // Looked for after that, so that nothing is missed.
        let spare = self.shard.take();
        let is_orphaned = spare.as_ref().is_some_and(|spare| spare.is_orphaned());
        self.shard.set(spare);
        if is_orphaned {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&self) {
        self.place.store(0, Ordering::Relaxed);
        if let Some(shard) = self.shard.take() {
            give_up(shard);
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.give_up();
        SPARES.fetch_sub(1, Ordering::Relaxed);
    }
}
