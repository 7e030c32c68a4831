//! The batch: leftovers that are taken out together.

use std::time::Duration;

use crate::platform::sync::{AtomicU64, AtomicUsize, Ordering, ShortLock};
use crate::wheel::{Key, Nanos};

/// So many keys fit, with the other fields, into the two cache lines that processors fetch together. In a model there
/// are fewer, so that the batch fills.
pub(super) const CAPACITY: usize = if cfg!(all(test, loom)) { 1 } else { 13 };

/// Timers that take a leftover over leave at least so many: after an empty batch, the next leftover would have to ask
/// the turner to come. In a model it is fewer, so that one is taken.
const KEPT: usize = if cfg!(all(test, loom)) { 0 } else { 1 };

/// The longest time that a leftover stays, with the waker in its entry. A waker may own something that keeps the wheel
/// alive.
const STAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Batch {
    keys: ShortLock<[Key; CAPACITY]>,
    /// How many keys there are. It is changed under their lock, and read without it where a guess will do.
    len: AtomicUsize,
    /// When the turner is to clear all leftovers, including the spare. `u64::MAX` if there are none. Relaxed, as the
    /// shard's next expiration is.
    clear_by: AtomicU64,
}

/// What became of a key that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is the first in the batch. The turner has to come by this time.
    First(Nanos),
    /// It has joined others.
    Joined,
    /// It is not in the batch, because there is no room.
    Full,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            keys: ShortLock::new([Key::PLACEHOLDER; CAPACITY]),
            len: AtomicUsize::new(0),
            clear_by: AtomicU64::new(u64::MAX),
        }
    }

    /// Adds a key, if there is room.
    pub(super) fn push(&self, key: Key, now: impl FnOnce() -> Nanos) -> Pushed {
        let mut keys = self.keys.lock();
        let len = self.len();
        let Some(room) = keys.get_mut(len) else { return Pushed::Full };
        *room = key;
        self.len.store(len + 1, Ordering::Relaxed);
        if len > 0 {
            return Pushed::Joined;
        }
        Pushed::First(self.clear_after(now()))
    }

    /// Sets the time at which the turner is to come to [`STAY`] after `now`, unless it is to come earlier. Returns that
    /// time, of which the caller tells the alarm.
    pub(super) fn clear_after(&self, now: Nanos) -> Nanos {
        let clear_by = now.after(STAY);
        clear_by.min(Nanos(self.clear_by.fetch_min(clear_by.0, Ordering::Relaxed)))
    }

    /// When the turner is to clear all leftovers. `MAX` if there are none.
    pub(super) fn clear_by(&self) -> Nanos {
        Nanos(self.clear_by.load(Ordering::Relaxed))
    }

    /// Takes all keys out. After this the turner need not come any more.
    pub(super) fn clear(&self) -> [Option<Key>; CAPACITY] {
        let mut all = [None; CAPACITY];
        if self.clear_by() != Nanos::MAX {
            let keys = self.keys.lock();
            for (copy, &key) in all.iter_mut().zip(&keys[..self.len()]) {
                *copy = Some(key);
            }
            self.len.store(0, Ordering::Relaxed);
            self.clear_by.store(u64::MAX, Ordering::Relaxed);
        }
        all
    }

    /// Whether there seems to be a leftover that may be taken over.
    #[inline]
    pub(super) fn has_one_to_take(&self) -> bool {
        self.len() > KEPT
    }

    /// Takes the last key out, so that its entry can be taken over. `None` if too few would be left, or if another
    /// thread has the lock of the keys: the caller holds the shard's lock, and must not wait.
    pub(super) fn take_one(&self) -> Option<Key> {
        let keys = self.keys.try_lock()?;
        let last = self.len().checked_sub(KEPT + 1)? + KEPT;
        self.len.store(last, Ordering::Relaxed);
        Some(keys[last])
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Calls `read` with the keys that are here, and with `another`. Some of their entries may have been handed out.
    pub(super) fn with_keys<R>(&self, another: Option<Key>, read: impl FnOnce(&[Key]) -> R) -> R {
        let keys = self.keys.lock();
        let mut len = self.len();
        let mut all = [Key::PLACEHOLDER; CAPACITY + 1];
        all[..len].copy_from_slice(&keys[..len]);
        if let Some(another) = another {
            all[len] = another;
            len += 1;
        }
        read(&all[..len])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn it_takes_two_cache_lines() {
        assert_eq!(size_of::<Batch>(), 128);
    }

    #[test]
    fn the_turner_clears_all_a_second_after_the_first() {
        let batch = Batch::new();
        let push = |secs| batch.push(Key::PLACEHOLDER, || Nanos::ZERO.after(Duration::from_secs(secs)));
        let clear_by = Nanos::ZERO.after(Duration::from_secs(11));
        assert_eq!(push(10), Pushed::First(clear_by));
        assert!((1..CAPACITY).all(|_| push(20) == Pushed::Joined));
        assert_eq!((push(20), batch.clear_by()), (Pushed::Full, clear_by));
    }

    #[test]
    fn the_first_does_not_put_off_what_the_turner_was_to_come_for_before() {
        let batch = Batch::new();
        let at = |millis| Nanos::ZERO.after(Duration::from_millis(millis));
        let clear_by = batch.clear_after(at(0));
        assert_eq!(clear_by, at(1_000));
        assert_eq!(batch.push(Key::PLACEHOLDER, || at(990)), Pushed::First(clear_by));
        assert_eq!(batch.clear_by(), clear_by);
        batch.clear();
        assert_eq!(batch.push(Key::PLACEHOLDER, || at(990)), Pushed::First(at(1_990)));
    }
}
