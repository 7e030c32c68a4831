//! The holders of a shard, which keep its wheel from ending: timers, and threads that keep a reference for their next
//! timer.
//!
//! A timer holds its shard by a reference. To count a reference up and down takes two locked instructions, a sixth of
//! the time that arming and cancelling take. So a thread keeps the reference of a timer that it dropped, and the next
//! timer that it makes in that shard takes the reference over.
//!
//! Kept references must not keep a wheel alive. A wheel that has a handle does not end anyway. Once the last handle is
//! gone, timers are made only by cloning another timer's reference. Then some references to a shard are kept by threads
//! for good, one is a turner's while it turns, and all others belong to timers. Each thread tells by its [`Tag`] to
//! which shard it keeps a reference, and
//!
//! | who | does |
//! |---|---|
//! | the last handle | publishes that it is gone, and wakes the driver's task |
//! | a thread that drops a timer | checks whether a handle is left; if one is, it writes its tag and keeps the reference; if none is, it gives the reference up, and wakes the driver's task if this may have been the last timer |
//! | the driver's task, once no handle is left | holds no reference itself; counts references, then tags; ends the wheel if there are no more references than tags; otherwise checks again later |
//!
//! The task never ends a wheel too early. It counts references first, and tags second. Those that it has counted only get
//! fewer. A reference that is cloned after that is never kept, because its thread finds that no handle is left: a fence
//! after each clone, and one before references are counted, see to that. So the task may find too many references or too
//! few tags, but never the opposite.
//!
//! The task may miss the end. A thread that checked for a handle just before the last one went wakes nobody; if it
//! still has its reference when the task counts, the task sees a timer. To order the two would take the very locked
//! instruction that is saved here. So the task checks again: after a second, and then after twice the time before, up
//! to a minute. While a clock is paused it does not, because the clock would jump to the time of that check.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::Shard;
use crate::platform::sync::{
    AtomicUsize, Mutex, MutexGuard, Ordering, OwnLines, count_one_more, lock, references_to, uncount,
};

/// A timer's reference to its shard.
#[derive(Debug)]
pub(crate) struct ShardRef {
    /// `Some` until this is dropped.
    shard: Option<Arc<Shard>>,
}

impl ShardRef {
    /// The caller has a handle or another timer, so the wheel is not at its end.
    #[inline]
    pub(crate) fn new(shard: &Arc<Shard>) -> Self {
        // A thread that is about to end keeps no reference any more.
        let kept = KEPT.try_with(|kept| kept.take(shard)).ok().flatten();
        Self { shard: Some(kept.unwrap_or_else(|| shard.clone())) }
    }
}

impl Clone for ShardRef {
    fn clone(&self) -> Self {
        Self { shard: self.shard.as_ref().map(count_one_more) }
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
        // The thread keeps this reference, and gives up the one that it kept before. A thread that is about to end
        // keeps none. Giving up comes last, because users' code may be dropped with the last reference to a shard.
        let kept = KEPT.try_with(|kept| kept.keep(self.shard.take()));
        let not_kept = kept.unwrap_or_else(|_| self.shard.take());
        if let Some(shard) = not_kept {
            give_up(shard);
        }
    }
}

/// Uncounts a reference. If no handle is left, wakes the driver's task if only threads may hold the shard now.
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
    let of_threads_and_turner = tags().len() + 1;
    if references_to(&left) <= of_threads_and_turner {
        alarm.wake_to_check();
    }
}

/// For the driver's task, once no handle is left, while it has no reference of its own: whether no timer holds the shard, but
/// at most threads that keep a reference.
pub(crate) fn only_threads_hold(shard: &Weak<Shard>) -> bool {
    // References are counted before tags; see above.
    let references = references_to(shard);
    let address = shard.as_ptr().addr();
    let is_of_it = |tag: &Weak<Tag>| tag.upgrade().is_some_and(|tag| tag.load(Ordering::Relaxed) == address);
    references <= tags().iter().filter(|tag| is_of_it(tag)).count()
}

/// The reference that a thread keeps.
struct Kept {
    shard: Cell<Option<Arc<Shard>>>,
    tag: Arc<Tag>,
}

/// Where a thread tells to which shard it keeps a reference: the shard's address, or 0. Only this thread writes here.
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

    /// Takes the kept reference out, if it is one to `shard`.
    #[inline]
    fn take(&self, shard: &Arc<Shard>) -> Option<Arc<Shard>> {
        if self.tag.load(Ordering::Relaxed) != Arc::as_ptr(shard).addr() {
            return None;
        }
        self.tag.store(0, Ordering::Relaxed);
        self.shard.take()
    }

    /// Keeps a reference, unless its wheel has no handle left. Returns the reference that was kept before, which the
    /// caller has to give up.
    #[inline]
    fn keep(&self, shard: Option<Arc<Shard>>) -> Option<Arc<Shard>> {
        let shard = shard?;
        let address = Arc::as_ptr(&shard).addr();
        if self.tag.load(Ordering::Relaxed) == address {
            self.uncount(shard);
            return None;
        }
        // The check for a handle comes first: the tag of a cloned reference might stand in for a timer otherwise.
        if shard.is_orphaned() {
            return Some(shard);
        }
        // The tag is written before the other reference is given up.
        self.tag.store(address, Ordering::Relaxed);
        self.shard.replace(Some(shard))
    }

    /// Gives up a second reference to the shard to which one is kept.
    #[inline]
    fn uncount(&self, shard: Arc<Shard>) {
        uncount(shard);
        // The check for a handle comes after that, so that the end is not missed.
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

/// For models: their statics are gone before a thread drops what it keeps.
#[cfg(all(test, loom))]
pub(crate) fn give_up_kept() {
    KEPT.with(Kept::give_up);
}
