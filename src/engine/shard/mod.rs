//! One lock round one hierarchy of wakers, and what can be read of it without the lock.
//!
//! Wakers are cloned before the lock is taken, and woken and dropped after it is let go: they are code of a
//! user's, which may arm, move and drop timers, and panic.

mod cancelling;
mod changing;
mod count;
mod holders;
mod kept_places;
mod leftovers;
#[cfg(all(test, not(loom)))]
mod model;
mod published;
#[cfg(all(test, not(loom)))]
mod testing;
mod tolerant;
mod turn;

use std::sync::Arc;
use std::task::Waker;

use leftovers::Leftovers;
use published::Published;

#[cfg(all(test, loom))]
pub(crate) use holders::give_up_kept;
pub(crate) use holders::{ShardRef, only_threads_hold};
pub(crate) use turn::Turn;

use crate::engine::alarm::Alarm;
use crate::engine::bound::Bound;
use crate::error::Error;
use crate::platform::clock::Clock;
use crate::platform::sync::{AtomicU64, Ordering, OwnLines, ShortLock, ShortLockGuard};
use crate::telemetry::notes::Notes;
use crate::wheel::{Hierarchy, Key, Nanos, Resolution};

/// So many entries do not all lie in a processor's own cache,
const CROWD: usize = 1 << 15;
/// but so many that were inserted last do. All others are old.
const YOUNG: u32 = 1 << 13;
/// With so many insertions it is looked which are.
const AGE: u32 = YOUNG / 8;

#[derive(Debug)]
pub(crate) struct Shard {
    state: OwnLines<ShortLock<State>>,
    published: OwnLines<Published>,
    leftovers: Leftovers,
    /// Which of the wheel's shards this is, and how many there are.
    number: usize,
    shards: usize,
    clock: Clock,
    resolution: Resolution,
    alarm: Arc<Alarm>,
    /// Whether the clock can be paused, as the alarm knows too.
    pausable: bool,
    bound: Option<Arc<Bound>>,
    panics: AtomicU64,
}

#[derive(Debug)]
struct State {
    hierarchy: Hierarchy<Waker>,
    ended: bool,
    armed: u64,
    fired: u64,
    cancelled: u64,
}

impl State {
    /// Takes an entry out, if it is still there.
    #[inline]
    fn cancel(&mut self, key: Key) -> Option<Waker> {
        let waker = self.hierarchy.cancel(key)?;
        self.cancelled += 1;
        Some(waker)
    }
}

impl Shard {
    /// The shard of this `number` among so many.
    pub(crate) fn new(
        (number, shards): (usize, usize),
        hierarchy: Hierarchy<Waker>,
        clock: Clock,
        alarm: Arc<Alarm>,
        bound: Option<Arc<Bound>>,
    ) -> Self {
        let resolution = hierarchy.resolution();
        Self {
            state: OwnLines(ShortLock::new(State {
                hierarchy,
                ended: false,
                armed: 0,
                fired: 0,
                cancelled: 0,
            })),
            published: OwnLines(Published::new()),
            leftovers: Leftovers::new(),
            number,
            shards,
            clock,
            resolution,
            pausable: alarm.is_pausable(),
            alarm,
            bound,
            panics: AtomicU64::new(0),
        }
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// How many shards the wheel has, and how many slots each of their levels.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.shards, self.state.lock().hierarchy.slots())
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    pub(crate) fn max_pending(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.max_pending())
    }

    /// Whether the clock can be paused, so that it may have jumped since it was looked at.
    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// Whether the wheel's last handle is gone, so that no timer will be made here any more.
    #[inline]
    fn is_orphaned(&self) -> bool {
        self.alarm.is_orphaned()
    }

    /// Adds an entry, or tells by `None` that `deadline` has been reached. `now` is the time, or one not long ago.
    #[inline]
    pub(crate) fn register(&self, now: Nanos, deadline: Nanos, waker: Waker) -> Result<Option<Key>, Error> {
        self.register_by(Hierarchy::insert_and_tell, now, deadline, waker)
    }

    #[inline]
    fn register_by(
        &self,
        insert: impl FnOnce(&mut Hierarchy<Waker>, Nanos, Nanos, Waker) -> Result<(Key, Nanos), Waker>,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        if let Some(bound) = &self.bound
            && let Err(at_capacity) = bound.take()
        {
            // A wheel without a place for anything is full also when it has ended.
            let error = if self.has_ended() { Error::shutdown() } else { at_capacity };
            return self.refuse(deadline, error);
        }
        let registered = self.insert_by(insert, now, deadline, waker);
        if !matches!(registered, Ok(Some(_))) {
            self.give_back(1);
        }
        registered
    }

    /// As [`register_by`](Self::register_by), where a place has been taken and `now` is before `deadline`.
    #[inline(always)]
    fn insert_by(
        &self,
        insert: impl FnOnce(&mut Hierarchy<Waker>, Nanos, Nanos, Waker) -> Result<(Key, Nanos), Waker>,
        now: Nanos,
        deadline: Nanos,
        waker: Waker,
    ) -> Result<Option<Key>, Error> {
        let mut state = self.state.lock();
        let refused = if state.ended {
            Err(waker)
        } else {
            match insert(&mut state.hierarchy, now, deadline, waker) {
                Ok((key, expiration)) => {
                    state.armed += 1;
                    if key.insertion().is_multiple_of(AGE) {
                        self.publish_old(&state, key);
                    }
                    self.publish_and_request(state, expiration);
                    return Ok(Some(key));
                }
                Err(waker) => Ok(waker),
            }
        };
        drop(state);
        match refused {
            Ok(_due) => Ok(None),
            Err(_waker) => self.refuse(deadline, Error::shutdown()),
        }
    }

    /// Not a deadline that has come meanwhile: that needs no entry.
    #[cold]
    fn is_refused(&self, deadline: Nanos, at_capacity: bool) -> bool {
        let refused = deadline > self.clock.now();
        if refused && at_capacity {
            self.alarm.refused();
        }
        refused
    }

    fn refuse(&self, deadline: Nanos, error: Error) -> Result<Option<Key>, Error> {
        if self.is_refused(deadline, error.is_at_capacity()) { Err(error) } else { Ok(None) }
    }

    /// Whether the driver has come to `deadline`. One load; until it says so, nothing has happened to the entry.
    #[inline]
    pub(crate) fn has_reached(&self, deadline: Nanos) -> bool {
        self.published.has_reached(deadline)
    }

    /// Lets the driver know if `next` is before what it knows as the next expiration. Lets go of the lock.
    #[inline(always)]
    fn publish_and_request(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        debug_assert!(state.hierarchy.expires_no_earlier_than(next.min(self.published.next_expiration())));
        if next < self.published.next_expiration() {
            self.publish_earlier(state, next);
        }
    }

    #[inline(never)]
    fn publish_earlier(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        // Publish first, look second; see `alarm`.
        self.published.set_next_expiration(Some(next));
        drop(state);
        self.alarm.request(next);
    }

    /// Lets who drops a timer know which ones are old, now that one was inserted under `key`.
    #[cold]
    fn publish_old(&self, state: &State, key: Key) {
        let is_crowd = state.hierarchy.len() >= CROWD;
        self.published.set_old_before(if is_crowd { key.insertion().saturating_sub(YOUNG) } else { 0 });
    }

    /// Whether the shard has ended. Without the lock.
    pub(crate) fn has_ended(&self) -> bool {
        self.published.has_ended()
    }

    /// Counts a job of this shard's that panicked.
    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Where the driver notes what happens to the wheel.
    pub(crate) fn notes(&self) -> &Notes {
        self.alarm.notes()
    }

    fn give_back(&self, places: usize) {
        if let Some(bound) = &self.bound {
            bound.give_back(places);
        }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        // The wakers may be code of anyone's, also of one who does not drop this wheel.
        let (left_wakers, state) = self.lock_and_clear();
        drop(state);
        drop(left_wakers);
        self.alarm.release_shard();
    }
}
