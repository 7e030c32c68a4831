//! One lock round one hierarchy of wakers, and what can be read of it without the lock.
//!
//! Wakers are cloned before the lock is taken, and woken and dropped after it is let go: they are code of a
//! user's, which may arm, move and drop timers, and panic.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::bound::Bound;
use crate::clock::Clock;
use crate::error::Error;
use crate::stats::Stats;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::wheel::{Hierarchy, Key, Nanos, Progress};

/// The time in `reached` after the end, when nobody's deadline will be reached any more: whoever waits has
/// to look.
const ENDED: u64 = u64::MAX;

/// On its own pair of cache lines, so that workers do not write to each other's.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    // The three below are written under the lock only.
    /// The driver has nothing to do in this shard before then. It may be earlier than the truth, because
    /// cancelling does not raise it. Relaxed everywhere: fences order it against `armed`, see `alarm`.
    next_expiration: AtomicU64,
    /// The driver has been here at this time: deadlines up to it have elapsed.
    reached: AtomicU64,
    /// Entries with deadlines up to this have left the hierarchy.
    handed_out: AtomicU64,
    clock: Clock,
    tick: Duration,
    alarm: Arc<Alarm>,
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

/// What a turn of the driver left in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// More is due.
    More,
    /// Nothing to do before this time.
    Until(Nanos),
    /// The shard has ended.
    Ended,
}

impl Shard {
    pub(crate) fn new(
        hierarchy: Hierarchy<Waker>,
        clock: Clock,
        alarm: Arc<Alarm>,
        bound: Option<Arc<Bound>>,
    ) -> Self {
        let tick = hierarchy.resolution().tick();
        Self {
            state: Mutex::new(State { hierarchy, ended: false, armed: 0, fired: 0, cancelled: 0 }),
            next_expiration: AtomicU64::new(u64::MAX),
            reached: AtomicU64::new(0),
            handed_out: AtomicU64::new(0),
            clock,
            tick,
            alarm,
            bound,
        }
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) const fn tick(&self) -> Duration {
        self.tick
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether the clock can be paused, so that it may have jumped since it was looked at.
    pub(crate) fn is_pausable(&self) -> bool {
        self.alarm.is_pausable()
    }

    /// Adds an entry, or tells by `None` that `deadline` has been reached. `now` is the time, or one not long ago.
    pub(crate) fn register(&self, now: Nanos, deadline: Nanos, waker: Waker) -> Result<Option<Key>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        if let Some(bound) = &self.bound
            && let Err(at_capacity) = bound.take()
        {
            return self.refuse(deadline, at_capacity);
        }
        let mut state = lock(&self.state);
        let refused = if state.ended {
            Err(waker)
        } else {
            match state.hierarchy.insert_and_tell(now, deadline, waker) {
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
    fn refuse(&self, deadline: Nanos, error: Error) -> Result<Option<Key>, Error> {
        if deadline <= self.clock.now() { Ok(None) } else { Err(error) }
    }

    /// Whether the driver has come to `deadline`. One load; until it says so, nothing has happened to the entry.
    pub(crate) fn has_reached(&self, deadline: Nanos) -> bool {
        // Acquire: what the driver did to the entry before, happened.
        self.reached.load(Ordering::Acquire) >= deadline.0
    }

    /// For an entry whose deadline has been reached, so that it is on its way out or gone: sees to it that it
    /// is gone. The error is that the wheel has ended before the deadline.
    pub(crate) fn finish(&self, key: Key, deadline: Nanos) -> Result<(), Error> {
        if self.is_handed_out(deadline) {
            return Ok(());
        }
        let mut state = lock(&self.state);
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
    pub(crate) fn cancel(&self, key: Key, deadline: Nanos) -> Option<Waker> {
        if self.is_handed_out(deadline) {
            return None;
        }
        let mut state = lock(&self.state);
        let waker = state.hierarchy.cancel(key)?;
        state.cancelled += 1;
        // A paused clock would go on to the time of a timer that is no more.
        let disarm = self.alarm.is_paused() && state.hierarchy.is_empty();
        if disarm {
            let next = state.hierarchy.next_expiration().unwrap_or(Nanos::MAX);
            self.next_expiration.store(next.0, Ordering::Relaxed);
        }
        drop(state);
        if disarm {
            self.alarm.wake_driver();
        }
        self.give_back(1);
        Some(waker)
    }

    /// Gives an entry another waker, and returns the one before. If the entry is gone, gives the waker back.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<Waker, Waker> {
        let mut state = lock(&self.state);
        match state.hierarchy.get_mut(key) {
            Some(current) => Ok(std::mem::replace(current, waker)),
            None => Err(waker),
        }
    }

    /// Moves an entry to another deadline, and tells whether it is pending after that: not if it had been
    /// handed out, and not if the new deadline has been reached. Then its waker is woken.
    pub(crate) fn reschedule(&self, key: Key, from: Nanos, to: Nanos) -> bool {
        if to >= from {
            return lock(&self.state).hierarchy.reschedule(key, to);
        }
        let now = self.clock.now();
        let mut state = lock(&self.state);
        // The wheel may have been turned since the clock was looked at, and counts as handed out what it passed.
        if to <= now.max(state.hierarchy.elapsed()) {
            drop(state);
            if let Some(waker) = self.cancel(key, from) {
                waker.wake();
            }
            return false;
        }
        let is_pending = state.hierarchy.reschedule(key, to);
        let next = state.hierarchy.next_expiration().unwrap_or(Nanos::MAX);
        self.publish_and_request(state, next);
        is_pending
    }

    /// Lets the driver know if `next` is before what it knows as the next expiration. Lets go of the lock.
    fn publish_and_request(&self, state: MutexGuard<'_, State>, next: Nanos) {
        debug_assert!(state.hierarchy.expires_no_earlier_than(next.min(self.next_expiration())));
        if next.0 < self.next_expiration.load(Ordering::Relaxed) {
            // Publish first, look second; see `alarm`.
            self.next_expiration.store(next.0, Ordering::Relaxed);
            drop(state);
            self.alarm.request(next);
        }
    }

    /// For the driver: the time before which there is nothing to do here.
    pub(crate) fn next_expiration(&self) -> Nanos {
        Nanos(self.next_expiration.load(Ordering::Relaxed))
    }

    /// For the driver: moves the clock to `now`, and adds the wakers of up to `batch` timers to `expired`.
    pub(crate) fn turn(&self, now: Nanos, batch: usize, expired: &mut Vec<Waker>) -> Turn {
        let next = self.next_expiration();
        if next > now {
            return if self.has_ended() { Turn::Ended } else { Turn::Until(next) };
        }
        let mut state = lock(&self.state);
        if state.ended {
            return Turn::Ended;
        }
        let before = expired.len();
        let progress = state.hierarchy.advance(now, batch, expired);
        let fired = expired.len() - before;
        state.fired += fired as u64;
        let turn = match progress {
            Progress::More => Turn::More,
            Progress::Done => {
                let next = state.hierarchy.next_expiration().unwrap_or(Nanos::MAX);
                self.next_expiration.store(next.0, Ordering::Relaxed);
                Turn::Until(next)
            }
        };
        // Before the wakers are woken, so that whoever is woken finds that its deadline has been reached.
        // A clock that seems to go back stands still.
        let reached = self.reached.load(Ordering::Relaxed).max(now.0);
        self.reached.store(reached, Ordering::Release);
        self.handed_out.store(state.hierarchy.handed_out_through().0, Ordering::Release);
        drop(state);
        self.give_back(fired);
        turn
    }

    /// Ends the shard, and adds the wakers of up to `batch` pending timers to `pending`: call it until it is done.
    /// Tells, if it ended by this call, how many were pending.
    pub(crate) fn end(&self, batch: usize, pending: &mut Vec<Waker>) -> (usize, Progress) {
        let mut state = lock(&self.state);
        let ended = if std::mem::replace(&mut state.ended, true) { 0 } else { state.hierarchy.len() };
        let before = pending.len();
        let progress = state.hierarchy.advance(Nanos::MAX, batch, pending);
        let taken = pending.len() - before;
        state.cancelled += taken as u64;
        self.next_expiration.store(u64::MAX, Ordering::Relaxed);
        self.reached.store(ENDED, Ordering::Release);
        drop(state);
        self.give_back(taken);
        (ended, progress)
    }

    /// Whether the shard has ended. Without the lock.
    pub(crate) fn has_ended(&self) -> bool {
        self.reached.load(Ordering::Acquire) == ENDED
    }

    pub(crate) fn pending(&self) -> usize {
        lock(&self.state).hierarchy.len()
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let state = lock(&self.state);
        stats.pending += state.hierarchy.len();
        stats.armed += state.armed;
        stats.fired += state.fired;
        stats.cancelled += state.cancelled;
        stats.cascaded += state.hierarchy.cascaded();
    }

    fn is_handed_out(&self, deadline: Nanos) -> bool {
        self.handed_out.load(Ordering::Acquire) >= deadline.0
    }

    fn give_back(&self, places: usize) {
        if let Some(bound) = &self.bound {
            bound.give_back(places);
        }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.alarm.release_shard();
    }
}
