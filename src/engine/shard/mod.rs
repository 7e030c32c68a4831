//! A shard: a hierarchy of wakers under a lock, and what can be read of it without the lock.
//!
//! Wakers are users' code, which may panic, and may arm, move and drop timers. So wakers are cloned before the lock is
//! taken, and are woken and dropped after it is released.

// | file | what it has |
// |---|---|
// | this one | arming |
// | `rescheduling`, `cancelling`, `tolerant` | moving a timer, taking one out, and both where it may be late |
// | `leftovers` | what becomes of the entries of dropped timers |
// | `turn` | a turner's side: handing out what is due |
// | `end` | the end of a shard, and what its timers find then |
// | `published`, `stats` | what can be read without the lock, and what this shard adds to the statistics |
// | `last_holder` | who keeps a wheel from ending |

mod cancelling;
mod end;
mod last_holder;
mod leftovers;
#[cfg(all(test, not(loom)))]
mod model_tests;
mod published;
mod rescheduling;
mod stats;
#[cfg(all(test, not(loom)))]
mod test_shards;
mod tolerant;
mod turn;

use std::sync::Arc;
use std::task::Waker;

use leftovers::Leftovers;
use published::Published;

#[cfg(all(test, loom))]
pub(crate) use last_holder::give_up_kept;
pub(crate) use last_holder::{ShardRef, only_threads_hold};
pub(crate) use turn::ShardTurn;

use crate::engine::alarm::Alarm;
use crate::engine::bound::Bound;
use crate::error::Error;
use crate::platform::clock::Clock;
use crate::platform::sync::{OwnLines, ShortLockGuard, ShortLockWithLine};
use crate::wheel::{Hierarchy, Key, Nanos, Resolution};

/// From this many entries on, a processor's own cache does not hold all of them.
const CROWD: usize = 1 << 15;
/// Among so many, the cache still holds this many that were inserted last. All others are old.
const YOUNG: u32 = 1 << 13;
/// Which entries are old is published again after each so many insertions.
const AGE: u32 = YOUNG / 8;

#[derive(Debug)]
pub(crate) struct Shard {
    state: OwnLines<ShortLockWithLine<State>>,
    published: OwnLines<Published>,
    leftovers: Leftovers,
    /// Which of the wheel's shards this is, and how many there are.
    number: usize,
    shards: usize,
    clock: Clock,
    resolution: Resolution,
    alarm: Arc<Alarm>,
    /// Whether the clock can be paused. A copy of what the alarm knows.
    pausable: bool,
    bound: Option<Arc<Bound>>,
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
    /// Shard `number` of `shards`.
    pub(crate) fn new(
        (number, shards): (usize, usize),
        hierarchy: Hierarchy<Waker>,
        clock: Clock,
        alarm: Arc<Alarm>,
        bound: Option<Arc<Bound>>,
    ) -> Self {
        let resolution = hierarchy.resolution();
        Self {
            state: OwnLines(ShortLockWithLine::new(State {
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
        }
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// How many shards the wheel has, and how many slots each level has.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.shards, self.state.lock().hierarchy.slots())
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    pub(crate) fn max_pending(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.max_pending())
    }

    /// Whether the clock can be paused. Such a clock may have jumped since the caller read it.
    pub(crate) const fn is_pausable(&self) -> bool {
        self.pausable
    }

    /// Whether the wheel's last handle is gone, so that only another timer can make a timer here.
    #[inline]
    fn is_orphaned(&self) -> bool {
        self.alarm.is_orphaned()
    }

    /// Adds an entry. `None` means that `deadline` has been reached, so there is none. `now` may be the time of a while
    /// ago.
    #[inline]
    pub(crate) fn register(&self, now: Nanos, deadline: Nanos, waker: Waker) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        if let Some(bound) = &self.bound
            && let Err(at_capacity) = bound.take()
        {
            // A wheel may be both full and at its end. Then the end is the error to tell.
            let error = if self.has_ended() { Error::shutdown() } else { at_capacity };
            return self.refuse(deadline, error);
        }
        let registered = self.insert(now, deadline, waker);
        if !matches!(registered, Ok(Some(_))) {
            self.give_back(1);
        }
        registered
    }

    /// As [`register`](Self::register), for a caller that has taken a permit, and whose `now` is before `deadline`.
    #[inline(always)]
    fn insert(&self, now: Nanos, deadline: Nanos, waker: Waker) -> Result<Option<Key>, Error> {
        let mut state = self.state.lock();
        // What was not inserted is dropped after the lock has been released.
        let not_inserted = if state.ended {
            NotInserted::Ended(waker)
        } else {
            match state.hierarchy.insert_and_tell(now, deadline, waker) {
                Ok((key, expiration)) => {
                    state.armed += 1;
                    if key.insertion().is_multiple_of(AGE) {
                        self.publish_old(&state, key);
                    }
                    self.publish_and_request(state, expiration);
                    return Ok(Some(key));
                }
                Err(waker) => NotInserted::Due(waker),
            }
        };
        drop(state);
        match not_inserted {
            NotInserted::Due(_waker) => Ok(None),
            NotInserted::Ended(_waker) => self.refuse(deadline, Error::shutdown()),
        }
    }

    /// Refuses a timer with `error`, unless its deadline has come meanwhile: then it needs no entry.
    fn refuse(&self, deadline: Nanos, error: Error) -> Result<Option<Key>, Error> {
        let has_come = self.has_come_or_note(deadline, error.is_at_capacity());
        if has_come { Ok(None) } else { Err(error) }
    }

    /// Whether `deadline` has come. If it has not, and the wheel is full, notes the refusal.
    #[cold]
    fn has_come_or_note(&self, deadline: Nanos, at_capacity: bool) -> bool {
        let has_come = deadline <= self.clock.now();
        if !has_come && at_capacity {
            self.alarm.refused();
        }
        has_come
    }

    /// Whether the turner has come to `deadline`, or the shard has ended. As long as this is false, nothing has
    /// happened to the entry. It takes one load.
    #[inline]
    pub(crate) fn has_reached(&self, deadline: Nanos) -> bool {
        self.published.has_reached(deadline)
    }

    /// If `next` is before the published next expiration, publishes it and asks for a turn by then. Releases
    /// the lock.
    #[inline(always)]
    fn publish_and_request(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        debug_assert!(state.hierarchy.expires_no_earlier_than(next.min(self.published.next_expiration())));
        if next < self.published.next_expiration() {
            self.publish_earlier(state, next);
        }
    }

    #[inline(never)]
    fn publish_earlier(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        // The expiration is published before `next_turn` is checked; see `alarm`.
        self.published.set_next_expiration(Some(next));
        drop(state);
        self.alarm.request(next);
    }

    /// Publishes which entries are old, for threads that drop timers. `key` is that of the entry inserted last.
    #[cold]
    fn publish_old(&self, state: &State, key: Key) {
        let is_crowd = state.hierarchy.len() >= CROWD;
        self.published.set_old_before(if is_crowd { key.insertion().saturating_sub(YOUNG) } else { 0 });
    }

    /// Whether the shard has ended. Takes no lock.
    pub(crate) fn has_ended(&self) -> bool {
        self.published.has_ended()
    }

    fn give_back(&self, permits: usize) {
        if let Some(bound) = &self.bound {
            bound.give_back(permits);
        }
    }
}

/// Why a timer was not inserted, with its waker.
enum NotInserted {
    /// Its deadline has been reached.
    Due(Waker),
    /// The shard has ended.
    Ended(Waker),
}

impl Drop for Shard {
    fn drop(&mut self) {
        // These wakers may belong to other tasks than the one that drops the wheel here, and may panic. So they are
        // dropped apart.
        let (left_wakers, state) = self.lock_and_clear();
        drop(state);
        drop(left_wakers);
        self.alarm.release_shard();
    }
}
