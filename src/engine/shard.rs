//! A shard: a hierarchy of wakers under a lock, and what can be read of it without the lock.
//!
//! **Ground rules.** Wakers are users' code, which may panic, and may arm, move and drop timers. So wakers are cloned
//! before the lock is taken, and are woken and dropped after it is released. All of `Published` but `late_turn` is written
//! under the lock, and read without it. A turn takes the lock of its counts first. Otherwise no lock is held when this one
//! is taken. Under it only that of the batch of leftovers is taken.
//!
//! A timer holds its shard by an `Arc`. When the last timer and the last handle have let go of all shards, the wheel ends.

#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor, worker_index};

use super::leftovers::{Left, LeftWakers, Leftovers};
use super::max_pending::MaxPending;
use crate::engine::alarm::Alarm;
use crate::error::Error;
use crate::platform::clock::Clock;
use crate::platform::sync::{AtomicU64, Ordering, ShortLock, ShortLockGuard};
use crate::platform::wakers::{WakerId, drop_stranger};
use crate::telemetry::stats::Stats;
use crate::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

/// From this many entries on, a processor's own cache does not hold all of them.
const CROWD: usize = 1 << 15;
/// Among so many, the cache still holds this many that were inserted last. All others are old.
const YOUNG: u32 = 1 << 13;
/// Which entries are old is published again after each so many insertions.
const AGE: u32 = YOUNG / 8;

/// The shard remembers the time of its last turn that came so late.
const HELD_UP: Duration = Duration::from_millis(500);

/// The time that a shard has reached when it has ended. It covers every deadline, so that each waiting future finds the end. No
/// clock comes to it.
const END: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Shard {
    state: ShortLock<State>,
    published: Published,
    leftovers: Leftovers,
    /// Which of the wheel's shards this is, and how many there are.
    number: usize,
    shards: usize,
    pub(crate) clock: Clock,
    pub(crate) resolution: Resolution,
    alarm: Arc<Alarm>,
    pub(crate) bound: Option<Arc<MaxPending>>,
}

#[derive(Debug)]
struct State {
    hierarchy: Hierarchy<Waker>,
    ended: bool,
    armed: u64,
    fired: u64,
    cancelled: u64,
}

/// What can be read without the lock.
#[derive(Debug, Default)]
struct Published {
    /// No bucket comes up before this time. It may be too early, because cancelling does not
    /// raise it. Relaxed everywhere: fences order it against the next turn, see `alarm`.
    next_expiration: AtomicU64,
    /// When a turn last had something to do here. Deadlines up to this time have been reached; after the end, which is
    /// [`END`], all have. Release and acquire, as the next: a thread that finds a deadline reached sees what the turner did
    /// before.
    reached: AtomicU64,
    /// Entries with deadlines up to this time have left the hierarchy.
    handed_out: AtomicU64,
    /// When a turn came more than [`HELD_UP`] after it was due here; zero if none did. Relaxed: see
    /// [`last_late_turn`](Shard::last_late_turn).
    late_turn: AtomicU64,
    /// Entries whose insertion number is lower are old. Zero unless there are very many entries. Relaxed: it only tells
    /// which of two ways to take. For the same reason it does no harm that the number after the highest is zero.
    old_before: AtomicU64,
}

impl Shard {
    /// Shard `number` of `shards`.
    pub(crate) fn new(
        (number, shards): (usize, usize),
        hierarchy: Hierarchy<Waker>,
        clock: Clock,
        alarm: Arc<Alarm>,
        bound: Option<Arc<MaxPending>>,
    ) -> Self {
        let resolution = hierarchy.resolution();
        let state = State { hierarchy, ended: false, armed: 0, fired: 0, cancelled: 0 };
        let published = Published { next_expiration: AtomicU64::new(u64::MAX), ..Published::default() };
        Self {
            state: ShortLock::new(state),
            published,
            leftovers: Leftovers::new(),
            number,
            shards,
            clock,
            resolution,
            alarm,
            bound,
        }
    }

    /// The wheel's name.
    pub(crate) fn wheel_name(&self) -> &str {
        &self.alarm.counters.name
    }

    // Arming.

    /// Arms a timer with `waker`: reuses the entry of a dropped timer, or adds one. Returns the entry's key, and the waker
    /// that it has. `None` means that `deadline` has come, so there is no entry. `now` may be stale.
    ///
    /// Call it under no lock: the waker of another task may be dropped here.
    #[inline]
    pub(crate) fn arm(
        &self,
        now: Nanos,
        deadline: Nanos,
        waker: &Waker,
    ) -> Result<Option<(Key, WakerId)>, Error> {
        if deadline <= now {
            return Ok(None);
        }
        let id = WakerId::of(waker);
        if let Some(key) = self.reuse_own(now, deadline, id) {
            return Ok(Some((key, id)));
        }
        let mut waker = waker.clone();
        // Of the clone, which stays: it need not have the address of the original.
        let id = WakerId::of(&waker);
        // Not from the batch among very many entries: there an old entry is in no cache, and the batch is cleared as
        // a whole instead.
        let from_batch = self.published.old_before.load(Ordering::Relaxed) == 0;
        if self.leftovers.may_give_one(from_batch) {
            let swap = |left: Option<&mut Waker>| left.map(|left| std::mem::swap(left, &mut waker)).is_some();
            if let Some(key) = self.reuse(now, deadline, from_batch, swap) {
                drop_stranger(Some(waker));
                return Ok(Some((key, id)));
            }
        }
        Ok(self.insert(now, deadline, waker)?.map(|key| (key, id)))
    }

    /// Reuses the entry of the spare, if the spare is of the same task: then the entry has the task's waker already.
    #[inline(always)]
    pub(crate) fn reuse_own(&self, now: Nanos, deadline: Nanos, waker: WakerId) -> Option<Key> {
        if !self.leftovers.has_spare_of(waker) {
            return None;
        }
        self.reuse(now, deadline, false, |left| left.is_some_and(|left| waker.is_of(left)))
    }

    /// Moves the entry of a leftover to `deadline`, if `is_wanted` says so of its waker. Otherwise takes the entry out.
    #[inline(always)]
    fn reuse(
        &self,
        now: Nanos,
        deadline: Nanos,
        from_batch: bool,
        is_wanted: impl FnOnce(Option<&mut Waker>) -> bool,
    ) -> Option<Key> {
        let mut state = self.state.lock();
        let key = self.leftovers.take_one(from_batch)?;
        state.hierarchy.catch_up(now);
        // A deadline that the wheel has passed counts as handed out.
        if !state.ended
            && deadline > state.hierarchy.clock()
            && let Some(next) = state.hierarchy.reschedule_if(key, deadline, is_wanted)
        {
            state.armed += 1;
            state.cancelled += 1;
            self.publish(state, next);
            return Some(key);
        }
        let waker = state.cancel(key);
        drop(state);
        drop_stranger(waker);
        None
    }

    /// Adds an entry.
    pub(crate) fn insert(&self, now: Nanos, deadline: Nanos, waker: Waker) -> Result<Option<Key>, Error> {
        if deadline == Nanos::MAX && self.clock.is_pausable && self.clock.has_come_to(deadline) {
            // Its time will never come, however short the delay. So the next turn ends the wheel.
            self.alarm.wake_to_turn();
            return Err(Error::shutdown());
        }
        if let Some(bound) = &self.bound
            && let Err(full) = bound.take()
        {
            // A wheel may be both full and at its end. Then the end is the error to tell.
            return self.refuse(deadline, if self.has_ended() { Error::shutdown() } else { full });
        }
        let mut state = self.state.lock();
        // What was not inserted is dropped after the lock has been released.
        let inserted =
            if state.ended { Err(waker) } else { state.hierarchy.insert_and_tell(now, deadline, waker) };
        match inserted {
            Ok((key, next)) => {
                state.armed += 1;
                if key.insertion().is_multiple_of(AGE) {
                    self.publish_old(&state, key);
                }
                self.publish(state, next);
                Ok(Some(key))
            }
            Err(waker) => {
                let has_ended = state.ended;
                drop(state);
                self.give_back(1);
                drop(waker);
                if has_ended { self.refuse(deadline, Error::shutdown()) } else { Ok(None) }
            }
        }
    }

    /// Refuses a timer with `error`, unless its deadline has come meanwhile: then it needs no entry.
    #[cold]
    fn refuse(&self, deadline: Nanos, error: Error) -> Result<Option<Key>, Error> {
        if deadline <= self.clock.now() {
            return Ok(None);
        }
        let has_to_tell = error.is_at_capacity() && self.alarm.counters.refused();
        if has_to_tell {
            self.alarm.driver.wake();
        }
        Err(error)
    }

    /// For a thread that has put an entry into a bucket that comes up at `next`: if that is earlier than all others,
    /// publishes it and asks for a turn by then. Releases the lock.
    #[inline(always)]
    fn publish(&self, state: ShortLockGuard<'_, State>, next: Nanos) {
        if next.0 < self.published.next_expiration.load(Ordering::Relaxed) {
            // This comes before the next turn is checked; see `alarm`.
            self.published.next_expiration.store(next.0, Ordering::Relaxed);
            drop(state);
            self.alarm.request(next);
        }
    }

    /// Publishes which entries are old, for threads that drop or arm timers. `key` is that of the entry inserted last.
    #[cold]
    fn publish_old(&self, state: &State, key: Key) {
        let is_crowd = state.hierarchy.len() >= CROWD;
        let old_before = if is_crowd { key.insertion().saturating_sub(YOUNG) } else { 0 };
        self.published.old_before.store(old_before.into(), Ordering::Relaxed);
    }

    // Waiting.

    /// Whether the turner has come to `deadline`, or the shard has ended. As long as this is false, nothing has
    /// happened to the entry. It takes one load.
    #[inline]
    pub(crate) fn has_reached(&self, deadline: Nanos) -> bool {
        self.published.reached.load(Ordering::Acquire) >= deadline.0
    }

    /// Whether entries with this deadline have left the hierarchy.
    #[inline]
    fn has_handed_out(&self, deadline: Nanos) -> bool {
        self.published.handed_out.load(Ordering::Acquire) >= deadline.0
    }

    /// Whether the shard has ended. Takes no lock.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.published.reached.load(Ordering::Acquire) == END
    }

    /// When this shard was last turned so late that its timers' tasks were woken long after their deadlines; zero if
    /// never. A task that was woken sees it, because it finds its deadline reached.
    pub(crate) fn last_late_turn(&self) -> Nanos {
        Nanos(self.published.late_turn.load(Ordering::Relaxed))
    }

    /// Whether the turner has come to `deadline`, and not only the end.
    pub(crate) fn has_come_to(&self, deadline: Nanos) -> bool {
        self.has_reached(deadline) && !self.ended_before(deadline)
    }

    /// Whether the shard has ended although the clock has not come to `deadline`.
    fn ended_before(&self, deadline: Nanos) -> bool {
        self.has_ended() && self.clock.now() < deadline
    }

    /// Gives an entry another waker. Returns the waker that it had; or, as the error, `waker` itself if the entry is
    /// gone.
    pub(crate) fn set_waker(&self, key: Key, waker: Waker) -> Result<Waker, Waker> {
        let mut state = self.state.lock();
        match state.hierarchy.get_mut(key) {
            Some(current) => Ok(std::mem::replace(current, waker)),
            None => Err(waker),
        }
    }

    /// For a timer whose deadline the turner has [reached](Self::has_reached): takes its entry out, if the turner has
    /// not handed it out yet. Returns how the timer ended: `Ok` if its deadline has come, the error if the wheel ended
    /// before.
    pub(crate) fn finish(&self, key: Key, deadline: Nanos) -> Result<(), Error> {
        if self.has_handed_out(deadline) {
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

    // Moving and cancelling.

    /// Moves an entry from one deadline to another. The error means that the entry is not pending any more. It holds the
    /// waker that the caller has to wake: the entry's own if `to` has passed, none if the entry had been handed out before.
    #[inline(always)]
    pub(crate) fn reschedule(&self, key: Key, from: Nanos, to: Nanos) -> Result<(), Option<Waker>> {
        // Where the clock can be paused, and so may jump, the next poll has to find the deadline reached. Elsewhere the
        // turner will come to it.
        if self.clock.is_pausable && (to < from || to == Nanos::MAX) && self.clock.has_come_to(to) {
            return Err(self.cancel(key, from));
        }
        let mut state = self.state.lock();
        // A deadline that the wheel has passed counts as handed out.
        if to <= state.hierarchy.clock() {
            return Err(self.take_out(state, key));
        }
        let next = state.hierarchy.reschedule_if(key, to, |_| true).ok_or(None)?;
        self.publish(state, next);
        Ok(())
    }

    /// For a timer that is dropped: leaves its key as a leftover, or takes its entry out. `waker` is the entry's; `None`
    /// for a timer with a tolerance, which never becomes the spare.
    #[inline(never)]
    pub(crate) fn discard(&self, key: Key, deadline: Nanos, waker: Option<WakerId>) {
        if self.has_handed_out(deadline) {
            return;
        }
        // A paused clock jumps to the next entry, a bound has to be kept exactly, and nobody clears a wheel that has
        // ended.
        if self.clock.is_pausable || self.bound.is_some() || self.has_ended() {
            return drop(self.take_out(self.state.lock(), key));
        }
        let is_old = u64::from(key.insertion()) < self.published.old_before.load(Ordering::Relaxed);
        if is_old || shard_of_this_thread(self.shards) != self.number {
            return self.discard_elsewhere(key);
        }
        match waker.map(|waker| self.leftovers.leave_as_spare(key, waker, || self.clock.now())) {
            Some(Left::Yes) => {}
            // `clear_by` is published before the next turn is checked; see `alarm`.
            Some(Left::First(clear_by)) => self.alarm.request(clear_by),
            Some(Left::No) | None => drop(self.take_out(self.state.lock(), key)),
        }
    }

    /// Leaves the key in the batch. If that is full, takes out the entries of all leftovers, and that of this key.
    pub(crate) fn discard_elsewhere(&self, key: Key) {
        match self.leftovers.leave_in_batch(key, || self.clock.now()) {
            Left::Yes => {}
            Left::First(clear_by) => self.alarm.request(clear_by),
            Left::No => {
                let mut state = self.state.lock();
                let wakers = self.clear_leftovers(&mut state, Some(key));
                drop(state);
                drop(wakers);
            }
        }
    }

    /// Takes an entry out, if it is still there, and returns its waker.
    #[inline]
    pub(crate) fn cancel(&self, key: Key, deadline: Nanos) -> Option<Waker> {
        if self.has_handed_out(deadline) { None } else { self.take_out(self.state.lock(), key) }
    }

    /// The same, for a caller that has the lock. Releases it.
    #[inline]
    fn take_out(&self, mut state: ShortLockGuard<'_, State>, key: Key) -> Option<Waker> {
        let waker = state.cancel(key)?;
        let was_last = self.clock.is_pausable && state.hierarchy.is_empty();
        if was_last {
            self.published.next_expiration.store(u64::MAX, Ordering::Relaxed);
        }
        drop(state);
        // A paused clock would jump to the time of this timer. So the alarm is set anew before the runtime parks.
        if was_last && self.clock.is_paused() {
            self.alarm.wake_to_turn();
        }
        self.give_back(1);
        Some(waker)
    }

    /// Takes the entries of all leftovers out, and that of `another`.
    #[inline]
    fn clear_leftovers(&self, state: &mut State, another: Option<Key>) -> LeftWakers {
        if state.hierarchy.len() < CROWD {
            self.published.old_before.store(0, Ordering::Relaxed);
        }
        if another.is_none() && self.leftovers.are_none() {
            return LeftWakers(None);
        }
        let wakers = state.hierarchy.cancel_all(self.leftovers.take_all(another));
        state.cancelled += wakers.iter().flatten().count() as u64;
        LeftWakers(Some(wakers))
    }

    fn give_back(&self, permits: usize) {
        if let Some(bound) = &self.bound {
            bound.give_back(permits);
        }
    }

    // For turners.

    /// Before this time there is nothing to do here.
    pub(crate) fn next_turn(&self) -> Nanos {
        self.next_expiration().min(self.clear_by())
    }

    /// When the first bucket comes up, or earlier.
    pub(crate) fn next_expiration(&self) -> Nanos {
        Nanos(self.published.next_expiration.load(Ordering::Relaxed))
    }

    /// When the leftovers are to be cleared. `Nanos::MAX` if there are none.
    pub(crate) fn clear_by(&self) -> Nanos {
        self.leftovers.clear_by()
    }

    /// Turns the shard at `now`: moves the hierarchy's clock, and adds the wakers of up to `batch` due timers to
    /// `expired`. A timer that is later than `longest_wait` was armed too late, and counts as late by that.
    pub(crate) fn turn(
        &self,
        now: Nanos,
        longest_wait: Nanos,
        batch: usize,
        expired: &mut Vec<Waker>,
    ) -> Progress {
        if self.next_turn() > now {
            return Progress::Done;
        }
        if now > self.next_turn().after(HELD_UP) {
            self.published.late_turn.store(now.0, Ordering::Relaxed);
        }
        let mut lateness = self.alarm.counters.lateness();
        let mut state = self.state.lock();
        // Dropping a waker is users' code, so the wakers outlive both guards.
        let left_wakers = self.clear_leftovers(&mut state, None);
        let before = expired.len();
        let mut progress = Progress::Done;
        if !state.ended {
            let mut record_lateness = lateness.recorder(longest_wait.0);
            progress = state.hierarchy.advance_and_tell(now, batch, |late_by, waker| {
                record_lateness(late_by);
                expired.push(waker);
            });
            drop(record_lateness);
            let fired = expired.len() - before;
            state.fired += fired as u64;
            // What is published below shows tasks that their timers have fired. By then the permits are free.
            self.give_back(fired);
            // This comes before the wakers are woken, so that each woken task finds its deadline reached.
            let Published { next_expiration, reached, handed_out, .. } = &self.published;
            if progress == Progress::Done {
                let next = state.hierarchy.next_expiration().unwrap_or(Nanos::MAX);
                next_expiration.store(next.0, Ordering::Relaxed);
            }
            // It stays if the clock seems to go back.
            reached.store(now.0.max(reached.load(Ordering::Relaxed)), Ordering::Release);
            handed_out.store(state.hierarchy.handed_out_through().0, Ordering::Release);
        }
        drop(state);
        drop(lateness);
        drop(left_wakers);
        progress
    }

    /// Ends the shard, and adds the wakers of up to `batch` pending timers to `pending`. Call it again until it is
    /// done. The first call returns how many timers were pending, each further call zero.
    pub(crate) fn end(&self, batch: usize, pending: &mut Vec<Waker>) -> (usize, Progress) {
        let mut state = self.state.lock();
        let left_wakers = self.clear_leftovers(&mut state, None);
        let ended = if std::mem::replace(&mut state.ended, true) { 0 } else { state.hierarchy.len() };
        // Before the entries are taken out, so that timers find the end even if that panics.
        self.published.next_expiration.store(u64::MAX, Ordering::Relaxed);
        self.published.reached.store(END, Ordering::Release);
        self.alarm.counters.shard_ends(ended);
        let before = pending.len();
        let progress = state.hierarchy.advance(Nanos::MAX, batch, pending);
        let taken = pending.len() - before;
        state.cancelled += taken as u64;
        drop(state);
        drop(left_wakers);
        self.give_back(taken);
        (ended, progress)
    }

    // Counts.

    pub(crate) fn pending(&self) -> usize {
        let state = self.state.lock();
        state.hierarchy.len() - self.leftovers.with_keys(|keys| state.count(keys))
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let state = self.state.lock();
        stats.armed += state.armed;
        stats.fired += state.fired;
        stats.cascaded += state.hierarchy.cascaded();
        // The leftovers are read once for all counts, because other threads discard timers meanwhile. So the levels add
        // up to `pending`.
        self.leftovers.with_keys(|keys| {
            let discarded = state.count(keys);
            stats.pending += state.hierarchy.len() - discarded;
            stats.cancelled += state.cancelled + discarded as u64;
            state.hierarchy.count_by_level(&mut stats.pending_by_level, keys);
        });
    }
}

impl State {
    /// Takes an entry out, if it is still there.
    #[inline]
    fn cancel(&mut self, key: Key) -> Option<Waker> {
        let waker = self.hierarchy.cancel(key)?;
        self.cancelled += 1;
        Some(waker)
    }

    /// How many of `keys` have entries that are still there.
    fn count(&self, keys: &[Key]) -> usize {
        keys.iter().filter(|&&key| self.hierarchy.contains(key)).count()
    }
}

/// The last timer and the last handle are gone.
impl Drop for Shard {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let left_wakers = self.clear_leftovers(&mut state, None);
        drop(state);
        drop(left_wakers);
        // It ends with the last shard.
        self.alarm.driver.wake();
    }
}

/// The number of this thread's shard among `shards`. Each worker has a shard of its own if there are enough, so that
/// workers do not wait for each other. Other threads are spread over the shards.
#[inline]
pub(crate) fn shard_of_this_thread(shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    let number = worker_index().filter(|&index| index > 0).unwrap_or_else(number_of_this_thread);
    // By default there are as many shards as workers, so most calls need no division, which takes long.
    if number < shards { number } else { number % shards }
}

/// A number for a thread that has no index, or the index 0, which it keeps. It is 0 for the first worker of a runtime.
///
/// tokio gives the index 0 to each thread in the `block_on` of a current-thread runtime too. A program may have such a thread
/// for each core, and one wheel.
fn number_of_this_thread() -> usize {
    static NEXT: StdAtomicUsize = StdAtomicUsize::new(0);
    thread_local!(static NUMBER: usize = {
        let is_multi_thread = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let is_worker = worker_index().is_some() && Handle::try_current().is_ok_and(is_multi_thread);
        if is_worker { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) }
    });
    // A thread that is about to end has no number any more.
    NUMBER.try_with(|&number| number).unwrap_or(0)
}
