//! Who holds a shard, and so keeps its wheel from ending: timers, and threads that keep a reference for their next timer.
//!
//! A timer holds its shard by a reference. To count a reference and to uncount it takes two locked instructions, a sixth
//! of what arming and cancelling costs. So a thread keeps the reference of a timer that it dropped, and the next timer that
//! it makes in that shard takes the reference over.
//!
//! Kept references must not keep a wheel from ending. A wheel that has a handle does not end anyway. Once the last handle
//! is gone, nobody makes a timer any more: of the references to a shard, some are kept by threads for good, one is the
//! driver's while it turns, and all others are timers. Each thread tells by its [`Tag`] which shard it keeps a
//! reference to, and
//!
//! | who | does |
//! |---|---|
//! | the last handle | says that it is gone, and wakes the driver |
//! | a thread that drops a timer | writes its tag, then looks for a handle; if none is left, it gives the reference up instead, and wakes the driver if no timer may be left |
//! | the driver, once no handle is left | counts references, having none of its own, then tags, and ends the wheel if there are as many; looks again now and then |
//!
//! The driver never ends a wheel too early. References only get fewer, so it may count too many of them, first, and too few
//! tags, second, but never the other way round.
//!
//! The driver may miss the end: a thread that looked for a handle just before the last one went, and that still has its
//! reference when the driver counts, wakes nobody. To order the two would take the locked instruction that all this
//! saves. So the driver looks again: a second later, and then after twice the time, up to a minute. While a clock is
//! paused it does not, because the clock would jump to the time of that look.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::Shard;
use crate::platform::sync::{
    AtomicUsize, Mutex, MutexGuard, Ordering, OwnLines, lock, references_to, uncount,
};

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
        // A thread that is about to end keeps none any more.
        let kept = KEPT.try_with(|kept| kept.take(shard)).ok().flatten();
        Self { shard: Some(kept.unwrap_or_else(|| shard.clone())) }
    }
}

impl Clone for ShardRef {
    fn clone(&self) -> Self {
        Self::new(self.shard.as_ref().expect("only `drop` takes it"))
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
        // What was there before is given up; all of it, where a thread is about to end. That comes last, because with
        // the last reference to a shard code of a user's may be dropped.
        let kept = KEPT.try_with(|kept| kept.keep(self.shard.take()));
        if let Some(shard) = kept.unwrap_or_else(|_| self.shard.take()) {
            give_up(shard);
        }
    }
}

/// Uncounts a reference. If no handle is left, only threads may hold the shard now.
fn give_up(shard: Arc<Shard>) {
    if shard.is_orphaned() {
        give_up_orphan(shard);
    } else {
        uncount(shard);
    }
}

#[cold]
fn give_up_orphan(shard: Arc<Shard>) {
    let (alarm, left) = (shard.alarm.clone(), Arc::downgrade(&shard));
    uncount(shard);
    let of_threads_and_driver = tags().len() + 1;
    if references_to(&left) <= of_threads_and_driver {
        alarm.wake_to_end();
    }
}

/// For the driver, once no handle is left, while it has no reference of its own: whether nobody holds a shard but
/// threads that keep a reference.
pub(crate) fn only_threads_hold(shard: &Weak<Shard>) -> bool {
    // Counted before the tags.
    let references = references_to(shard);
    let address = shard.as_ptr().addr();
    let is_of_it = |tag: &Weak<Tag>| tag.upgrade().is_some_and(|tag| tag.load(Ordering::Relaxed) == address);
    references <= tags().iter().filter(|tag| is_of_it(tag)).count()
}

/// What a thread keeps.
struct Kept {
    shard: Cell<Option<Arc<Shard>>>,
    tag: Arc<Tag>,
}

/// Where a thread tells which shard it keeps a reference to: the shard's address, or 0. It alone writes here.
type Tag = OwnLines<AtomicUsize>;

crate::platform::sync::statics! {
    thread static KEPT: Kept = Kept::new();
    /// The tags of all threads that may keep a reference, and of some that have ended.
    static TAGS: Mutex<Vec<Weak<Tag>>> = Mutex::new(Vec::new());
}

fn tags() -> MutexGuard<'static, Vec<Weak<Tag>>> {
    lock(&TAGS)
}

impl Kept {
    #[cold]
    fn new() -> Self {
        let tag = Arc::new(OwnLines(AtomicUsize::new(0)));
        let mut tags = tags();
        tags.retain(|tag| tag.strong_count() > 0);
        tags.push(Arc::downgrade(&tag));
        Self { shard: Cell::new(None), tag }
    }

    /// Takes the kept reference, if it is to that shard.
    #[inline]
    fn take(&self, shard: &Arc<Shard>) -> Option<Arc<Shard>> {
        if self.tag.load(Ordering::Relaxed) != Arc::as_ptr(shard).addr() {
            return None;
        }
        self.tag.store(0, Ordering::Relaxed);
        self.shard.take()
    }

    /// Keeps a reference, unless its wheel has no handle, and returns the one that is not needed.
    #[inline]
    fn keep(&self, shard: Option<Arc<Shard>>) -> Option<Arc<Shard>> {
        let shard = shard?;
        let address = Arc::as_ptr(&shard).addr();
        if self.tag.load(Ordering::Relaxed) == address {
            self.uncount(shard);
            return None;
        }
        // Told before the one before is given up, and before looking for a handle.
        self.tag.store(address, Ordering::Relaxed);
        let is_orphaned = shard.is_orphaned();
        let before = self.shard.replace(Some(shard));
        if is_orphaned {
            self.give_up();
        }
        before
    }

    /// Gives up a reference to the shard that one is kept to.
    #[inline]
    fn uncount(&self, shard: Arc<Shard>) {
        uncount(shard);
        // Looked for after that, so that nothing is missed.
        let kept = self.shard.take();
        let is_orphaned = kept.as_ref().is_some_and(|kept| kept.is_orphaned());
        self.shard.set(kept);
        if is_orphaned {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&self) {
        if let Some(shard) = self.shard.take() {
            self.tag.store(0, Ordering::Relaxed);
            give_up(shard);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// For models, whose statics are gone before what a thread keeps.
#[cfg(all(test, loom))]
pub(crate) fn give_up_kept() {
    KEPT.with(Kept::give_up);
}
