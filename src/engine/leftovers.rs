//! Leftovers: entries of dropped timers that stay in the hierarchy for a while.
//!
//! Taking an entry out at once is exact but expensive, for two reasons:
//!
//! - **Again and again.** A task that waits with timeouts makes a timer and drops it, again and again. Taking one entry out
//!   and putting another in takes the lock twice and searches for room. Moving the old entry takes the lock once.
//! - **Far away.** The entry of a timer that another worker armed, or that was armed long ago among very many, is in none of
//!   this processor's caches. Taking it out alone means waiting for a dozen cache lines, one after the other.
//!
//! So the key of a dropped timer goes one of three ways, which `Shard::discard` decides:
//!
//! | a timer is dropped | its key |
//! |---|---|
//! | on a wheel that has a bound, that has ended, or whose clock can be paused | the dropped timer's entry is taken out at once |
//! | on a thread of another shard, or as one of the oldest among very many | joins the batch |
//! | otherwise | becomes the spare; if there is a spare already, or the timer has a tolerance, the dropped timer's entry is taken out at once |
//!
//! A leftover counts as cancelled from the moment in which its timer is dropped. It ends in one of these ways:
//!
//! | when | what becomes of the leftover |
//! |---|---|
//! | a timer is armed in this shard | the timer reuses the entry of the spare, or else of the batch's last key, if another key stays there and the entries are not very many: the entry moves to the new deadline, mostly within its bucket. If it cannot, because its waker is another's or the wheel has ended, it is taken out alone |
//! | the batch is full | it is cleared with all others: their entries are taken out together, so that the processor fetches them at the same time |
//! | the shard is turned, at the latest a second after the first key was left, if the runtime runs; the wheel ends, or the shard is dropped | it is cleared with all others |
//!
//! Until then the entry keeps its waker: up to 14 wakers in each shard, for at most a second of a runtime that runs.
//!
//! **Ground rules.** A dropping thread leaves a key without the shard's lock. Only a thread that holds the shard's lock
//! takes a key away. The lock of the batch is taken after the shard's, or alone.

use std::task::Waker;
use std::time::Duration;

use crate::platform::sync::{AtomicU64, AtomicUsize, Ordering, ShortLock};
use crate::platform::wakers::{WakerId, drop_stranger};
use crate::wheel::{Key, Nanos};

/// So many keys has the batch. In a model there are fewer, so that it fills.
pub(super) const BATCH_LEN: usize = if cfg!(all(test, loom)) { 1 } else { 13 };
/// Keys that are cleared beside the batch: the spare, and one for which the batch had no room.
const OTHERS: usize = 2;
pub(super) const ALL: usize = BATCH_LEN + OTHERS;

/// Timers that reuse entries of the batch leave at least so many: after an empty batch, the next leftover would have to ask
/// the turner to come. In a model it is fewer, so that one is taken.
const KEPT: usize = if cfg!(all(test, loom)) { 0 } else { 1 };

/// The longest time that a leftover stays while the runtime runs, with the waker in its entry. A waker may own something
/// that keeps the wheel alive.
const STAY: Duration = Duration::from_secs(1);

/// No key has been left as the spare since the leftovers were cleared.
const EMPTY: u64 = Key::vacancy(0).to_bits();
/// As [`EMPTY`], but the turner has been asked to come, or is about to be: a timer has reused the entry that was left before.
const ASKED: u64 = Key::vacancy(1).to_bits();

fn key_of(spare: u64) -> Option<Key> {
    Some(Key::from_bits(spare)).filter(|key| !key.is_vacancy())
}

/// The leftovers of a shard.
#[derive(Debug)]
pub(super) struct Leftovers {
    /// The spare's key, or [`EMPTY`], or [`ASKED`]. Acquire and release: a thread that leaves a key after another one was
    /// taken away sees what was done before that.
    spare: AtomicU64,
    /// The hash of the spare's waker. Relaxed, because this is a guess: another thread may be about to leave a key.
    spare_waker: AtomicUsize,
    batch: ShortLock<[Key; BATCH_LEN]>,
    /// How many keys the batch has. It is changed under the batch's lock, and read without it where a guess will do.
    batch_len: AtomicUsize,
    /// When the turner is to clear all leftovers. `u64::MAX` if there are none. Relaxed, as the shard's next expiration is.
    clear_by: AtomicU64,
}

/// What became of a key that was to be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It is left, and the turner has been asked to come before.
    Yes,
    /// It is left, and the caller has to ask the turner to come by this time.
    First(Nanos),
    /// There is no room.
    No,
}

impl Leftovers {
    pub(super) fn new() -> Self {
        Self {
            spare: AtomicU64::new(EMPTY),
            spare_waker: AtomicUsize::new(0),
            batch: ShortLock::new([Key::PLACEHOLDER; BATCH_LEN]),
            batch_len: AtomicUsize::new(0),
            clear_by: AtomicU64::new(u64::MAX),
        }
    }

    /// When the turner is to clear them. `Nanos::MAX` if there are none.
    pub(super) fn clear_by(&self) -> Nanos {
        Nanos(self.clear_by.load(Ordering::Relaxed))
    }

    /// Publishes that the turner is to come within [`STAY`], unless it is to come before; the caller asks it to.
    fn clear_within_stay(&self, now: Nanos) -> Left {
        let clear_by = now.after(STAY);
        Left::First(clear_by.min(Nanos(self.clear_by.fetch_min(clear_by.0, Ordering::Relaxed))))
    }

    /// Leaves a key as the spare. `now` is called only if the turner has to be asked to come.
    #[inline]
    pub(super) fn leave_as_spare(&self, key: Key, waker: WakerId, now: impl FnOnce() -> Nanos) -> Left {
        let before = self.spare.load(Ordering::Relaxed);
        if key_of(before).is_some() {
            return Left::No;
        }
        self.spare_waker.store(waker.hash(), Ordering::Relaxed);
        let left = self.spare.compare_exchange(before, key.to_bits(), Ordering::AcqRel, Ordering::Relaxed);
        match left {
            Ok(EMPTY) if self.clear_by() == Nanos::MAX => self.clear_within_stay(now()),
            Ok(_) => Left::Yes,
            Err(_) => Left::No,
        }
    }

    /// Leaves a key in the batch. `now` is called only if the turner has to be asked to come.
    pub(super) fn leave_in_batch(&self, key: Key, now: impl FnOnce() -> Nanos) -> Left {
        let mut keys = self.batch.lock();
        let len = self.batch_len.load(Ordering::Relaxed);
        let Some(room) = keys.get_mut(len) else { return Left::No };
        *room = key;
        self.batch_len.store(len + 1, Ordering::Relaxed);
        if len > 0 { Left::Yes } else { self.clear_within_stay(now()) }
    }

    /// Whether there seems to be a spare whose entry has this waker.
    #[inline]
    pub(super) fn has_spare_of(&self, waker: WakerId) -> bool {
        self.spare_waker.load(Ordering::Relaxed) == waker.hash()
            && key_of(self.spare.load(Ordering::Relaxed)).is_some()
    }

    /// Whether [`take_one`](Self::take_one) seems to find one. A thread that arms a timer asks before it takes a lock for that.
    #[inline]
    pub(super) fn may_give_one(&self, from_batch: bool) -> bool {
        key_of(self.spare.load(Ordering::Relaxed)).is_some()
            || (from_batch && self.batch_len.load(Ordering::Relaxed) > KEPT)
    }

    /// For a thread with the shard's lock that arms a timer: takes away the spare, or else, if `from_batch`, the key that
    /// joined the batch last. The key's entry may have been handed out.
    #[inline]
    pub(super) fn take_one(&self, from_batch: bool) -> Option<Key> {
        if let Some(key) = key_of(self.spare.load(Ordering::Acquire)) {
            self.spare.store(ASKED, Ordering::Release);
            return Some(key);
        }
        if !from_batch {
            return None;
        }
        // Without the lock, as a guess.
        self.batch_len.load(Ordering::Relaxed).checked_sub(KEPT + 1)?;
        // The shard's lock is not held for longer because a dropping thread was preempted.
        let keys = self.batch.try_lock()?;
        let last = self.batch_len.load(Ordering::Relaxed).checked_sub(KEPT + 1)? + KEPT;
        self.batch_len.store(last, Ordering::Relaxed);
        Some(keys[last])
    }

    /// Whether none is here, as a rule before a turn, and the next to be left asks the turner to come.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.clear_by() == Nanos::MAX && self.spare.load(Ordering::Relaxed) == EMPTY
    }

    /// For a thread with the shard's lock: takes all keys away, and returns them with `another`. After this the turner need
    /// not come any more.
    pub(super) fn take_all(&self, another: Option<Key>) -> [Option<Key>; ALL] {
        let mut all = [None; ALL];
        if self.clear_by() != Nanos::MAX {
            let keys = self.batch.lock();
            for (copy, &key) in all.iter_mut().zip(&keys[..self.batch_len.load(Ordering::Relaxed)]) {
                *copy = Some(key);
            }
            self.batch_len.store(0, Ordering::Relaxed);
            self.clear_by.store(u64::MAX, Ordering::Relaxed);
        }
        // The spare comes after that. It is a swap even if no key is here: so a thread that leaves a key later sees that
        // the turner need not come any more, and asks it to come.
        all[BATCH_LEN] = key_of(self.spare.swap(EMPTY, Ordering::AcqRel));
        all[BATCH_LEN + 1] = another;
        all
    }

    /// Calls `read` with all keys that are here, for a thread with the shard's lock that counts. Some of their entries may
    /// have been handed out.
    pub(super) fn with_keys<R>(&self, read: impl FnOnce(&[Key]) -> R) -> R {
        let keys = self.batch.lock();
        let mut all = keys[..self.batch_len.load(Ordering::Relaxed)].to_vec();
        all.extend(key_of(self.spare.load(Ordering::Acquire)));
        read(&all)
    }
}

/// The wakers of leftovers that were cleared. They are dropped with this, which must happen after the lock is released.
#[must_use = "the wakers are dropped with this: release the lock first"]
pub(super) struct LeftWakers(pub(super) Option<[Option<Waker>; ALL]>);

impl Drop for LeftWakers {
    fn drop(&mut self) {
        // They may belong to other tasks, and may panic.
        self.0.iter_mut().flatten().for_each(|waker| drop_stranger(waker.take()));
    }
}
