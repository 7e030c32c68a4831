//! One lock round one hierarchy of wakers, and what can be read of it without the lock.
//!
//! Wakers are cloned before the lock is taken, and woken and dropped after it is let go: they are code of a
//! user's, which may arm, move and drop timers, and panic.

mod cancelled;
mod count;
mod published;
mod reference;
mod tolerant;
mod turn;

use std::sync::Arc;
use std::task::Waker;

use cancelled::{Cancelled, Pushed, Unwanted};
use published::Published;

pub(crate) use reference::{ShardRef, only_spares_hold};
pub(crate) use turn::Turn;

use crate::alarm::Alarm;
use crate::bound::Bound;
use crate::clock::Clock;
use crate::error::Error;
use crate::notes::Notes;
use crate::placement::shard_of_this_thread;
use crate::sync::{AtomicU64, Ordering, OwnLines, ShortLock, ShortLockGuard};
use crate::wheel::{Hierarchy, Key, Nanos, Resolution};

#[derive(Debug)]
pub(crate) struct Shard {
    state: OwnLines<ShortLock<State>>,
    published: OwnLines<Published>,
    cancelled: Cancelled,
    /// Which of the wheel's shards this is, and how many there are.
    number: usize,
    shards: usize,
    clock: Clock,
    resolution: Resolution,
    alarm: Arc<Alarm>,
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
            cancelled: Cancelled::new(),
            number,
            shards,
            clock,
            resolution,
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

    pub(crate) const fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether the clock can be paused, so that it may have jumped since it was looked at.
    pub(crate) fn is_pausable(&self) -> bool {
        self.alarm.is_pausable()
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
        let mut state = self.state.lock();
        let refused = if state.ended {
            Err(waker)
        } else {
            match insert(&mut state.hierarchy, now, deadline, waker) {
                Ok((key, expiration)) => {
                    state.armed += 1;
                    self.publish_and_request(state, expiration);
                    return Ok(Some(key));
                }
                Err(waker) => Ok(waker),
            }
        };
        drop(state);
        self.give_back(1);
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

    /// For an entry whose deadline has been reached, so that it is on its way out or gone: sees to it that it
    /// is gone. The error is that the wheel has ended before the deadline.
    pub(crate) fn finish(&self, key: Key, deadline: Nanos) -> Result<(), Error> {
        if self.published.has_handed_out(deadline) {
            return Ok(());
        }
        let mut state = self.state.lock();
        let waker = state.hierarchy.cancel(key);
        let taken = usize::from(waker.is_some());
        let ended = self.ended_before(deadline);
        *if ended { &mut state.cancelled } else { &mut state.fired } += taken as u64;
        drop(state);
        self.give_back(taken);
        if ended { Err(Error::shutdown()) } else { Ok(()) }
    }

    /// Whether the shard has ended and `deadline` has not come, by the clock.
    pub(crate) fn ended_before(&self, deadline: Nanos) -> bool {
        self.has_ended() && self.clock.now() < deadline
    }

    /// Takes an entry out, if it is still there, and returns its waker.
    #[inline]
    pub(crate) fn cancel(&self, key: Key, deadline: Nanos) -> Option<Waker> {
        if self.published.has_handed_out(deadline) {
            return None;
        }
        let mut state = self.state.lock();
        let waker = state.hierarchy.cancel(key)?;
        state.cancelled += 1;
        // A paused clock would go on to the time of a timer that is no more.
        let disarm = state.hierarchy.is_empty() && self.alarm.is_paused();
        if disarm {
            self.published.set_next_expiration(state.hierarchy.next_expiration());
        }
        drop(state);
        if disarm {
            self.alarm.wake_driver();
        }
        self.give_back(1);
        Some(waker)
    }

    /// As [`cancel`](Self::cancel), for an owner who does not ask whether it is still there. One on another worker leaves
    /// the taking out to others, see `cancelled`.
    #[inline]
    pub(crate) fn discard(&self, key: Key, deadline: Nanos) {
        if self.published.has_handed_out(deadline) {
            return;
        }
        // Where the clock can be paused it depends on what is pending, and a bound has to be kept to exactly.
        let is_elsewhere = shard_of_this_thread(self.shards) != self.number && !self.is_pausable();
        if is_elsewhere && self.bound.is_none() {
            self.discard_from_elsewhere(key);
        } else {
            drop(self.cancel(key, deadline));
        }
    }

    pub(crate) fn discard_from_elsewhere(&self, key: Key) {
        match self.cancelled.push(key, || self.clock.now()) {
            // Published first, looked second; see `alarm`.
            Pushed::First(clear_by) => self.alarm.request(clear_by),
            Pushed::Joined => {}
            Pushed::Full => {
                let (unwanted, mut state) = self.lock_and_take_out();
                let waker = state.hierarchy.cancel(key);
                state.cancelled += u64::from(waker.is_some());
                drop(state);
                drop(unwanted);
            }
        }
    }

    /// Takes the lock, and takes out what was discarded elsewhere.
    fn lock_and_take_out(&self) -> (Unwanted, ShortLockGuard<'_, State>) {
        let mut state = self.state.lock();
        (self.take_out_cancelled(&mut state), state)
    }

    fn take_out_cancelled(&self, state: &mut State) -> Unwanted {
        let unwanted = self.cancelled.take_out(&mut state.hierarchy);
        state.cancelled += unwanted.len() as u64;
        unwanted
    }

    /// Gives an entry another waker, and returns the one before. If the entry is gone, gives the waker back.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<Waker, Waker> {
        let mut state = self.state.lock();
        match state.hierarchy.get_mut(key) {
            Some(current) => Ok(std::mem::replace(current, waker)),
            None => Err(waker),
        }
    }

    /// Moves an entry to another deadline, and tells whether it is pending after that: not if it had been
    /// handed out, and not if the wheel has passed the new deadline. Then its waker is woken. `now` is the time, if the
    /// caller has looked.
    #[inline]
    pub(crate) fn reschedule(&self, key: Key, from: Nanos, to: Nanos, now: Option<Nanos>) -> bool {
        if to >= from {
            return self.state.lock().hierarchy.reschedule(key, to);
        }
        // Where the clock may jump, whoever polls next expects to find what has passed. Otherwise the driver will.
        let now = if self.is_pausable() { now.unwrap_or_else(|| self.clock.now()) } else { Nanos::ZERO };
        let mut state = self.state.lock();
        // What the wheel has passed counts as handed out.
        if to <= now.max(state.hierarchy.elapsed()) {
            drop(state);
            if let Some(waker) = self.cancel(key, from) {
                waker.wake();
            }
            return false;
        }
        let Some(expiration) = state.hierarchy.reschedule_and_tell(key, to) else { return false };
        self.publish_and_request(state, expiration);
        true
    }

    /// Lets the driver know if `next` is before what it knows as the next expiration. Lets go of the lock.
    #[inline]
    fn publish_and_request(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        debug_assert!(state.hierarchy.expires_no_earlier_than(next.min(self.published.next_expiration())));
        if next < self.published.next_expiration() {
            // Publish first, look second; see `alarm`.
            self.published.set_next_expiration(Some(next));
            drop(state);
            self.alarm.request(next);
        }
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
        // The wakers of what was discarded elsewhere are strangers to whoever drops the last of a wheel.
        let (unwanted, state) = self.lock_and_take_out();
        drop(state);
        drop(unwanted);
        self.alarm.release_shard();
    }
}
