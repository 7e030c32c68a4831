//! Timers that were dropped, and whose entries are taken out later, several in one go.
//!
//! A task that moved to another worker drops its timer there. To take the entry out it would fetch a dozen cache
//! lines from the first worker, which then has to fetch them back. And where very many timers are pending, an old one's
//! entry lies in no cache: to wait for it, and then for the bucket that it names, takes several times as long as the
//! rest. So the key is left here, on two lines. Who finds the place full takes all of them out, which waits for all
//! together, and so does the driver, when it turns the shard and a second after the first key at the latest. Who counts,
//! and who fires, counts them out: to have been left here is to be cancelled.
//!
//! Where tasks go to and fro between workers as many come as go. So a timer that would be inserted takes the place of one
//! that was left here, as of an [abandoned](super::abandoned) one.

use std::task::Waker;
use std::time::Duration;

use crate::platform::contain::contained;
use crate::platform::sync::{AtomicU64, AtomicUsize, Ordering, ShortLock};
use crate::wheel::{Hierarchy, Key, Nanos};

/// As many as fit, with the rest, into the two cache lines that processors fetch together. In a model fewer, so that
/// the place fills.
const CAPACITY: usize = if cfg!(all(test, loom)) { 1 } else { 13 };

/// So many are left by who takes one: where there are none, the next has to have the driver come anew. In a model fewer,
/// so that one is taken.
const LEFT: usize = if cfg!(all(test, loom)) { 0 } else { 1 };

/// One that found no room, and the abandoned one.
const OTHERS: usize = 2;

/// How long a key stays at the most, and the waker in its entry. A waker may keep alive what keeps the wheel alive.
const STAY: Duration = Duration::from_secs(1);

/// Keys of entries that nobody waits for any more.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Cancelled {
    keys: ShortLock<[Key; CAPACITY]>,
    /// How many of them there are. Changed under their lock, and looked at without, where a guess will do.
    len: AtomicUsize,
    /// When the driver is to take them out, or the abandoned one; never, if there are none. Relaxed, as the shard's next
    /// expiration is.
    clear_by: AtomicU64,
}

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is the first: the driver has to come by then.
    First(Nanos),
    /// It is with others.
    Joined,
    /// It was not taken: there is no room.
    Full,
}

#[cfg(all(target_pointer_width = "64", not(all(test, loom))))]
const _: () = assert!(size_of::<Cancelled>() == 128);

impl Cancelled {
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
        let Some(place) = keys.get_mut(len) else { return Pushed::Full };
        *place = key;
        self.len.store(len + 1, Ordering::Relaxed);
        if len > 0 {
            return Pushed::Joined;
        }
        Pushed::First(self.clear_after(now()))
    }

    /// The driver is to come when the time of a stay has passed since `now`, unless it is to come earlier: tells when that
    /// is.
    pub(super) fn clear_after(&self, now: Nanos) -> Nanos {
        let clear_by = now.after(STAY);
        clear_by.min(Nanos(self.clear_by.fetch_min(clear_by.0, Ordering::Relaxed)))
    }

    pub(super) fn clear_by(&self) -> Nanos {
        Nanos(self.clear_by.load(Ordering::Relaxed))
    }

    /// Takes all keys, and leaves room behind them for [`OTHERS`].
    pub(super) fn take(&self) -> [Option<Key>; CAPACITY + OTHERS] {
        let mut all = [None; CAPACITY + OTHERS];
        if self.clear_by() != Nanos::MAX {
            let keys = self.keys.lock();
            for (place, &key) in all.iter_mut().zip(&keys[..self.len()]) {
                *place = Some(key);
            }
            self.len.store(0, Ordering::Relaxed);
            self.clear_by.store(u64::MAX, Ordering::Relaxed);
        }
        all
    }

    /// Whether there seem to be more than are left here.
    #[inline]
    pub(super) fn has_some_to_take(&self) -> bool {
        self.len() > LEFT
    }

    /// Takes the last one, unless so few are left here, or somebody else is here: the shard's lock is not held for long.
    pub(super) fn take_one(&self) -> Option<Key> {
        let keys = self.keys.try_lock()?;
        let last = self.len().checked_sub(LEFT + 1)? + LEFT;
        self.len.store(last, Ordering::Relaxed);
        Some(keys[last])
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Looks at the keys that are here, and at `another`. Some of their entries may have been handed out.
    pub(super) fn look<R>(&self, another: Option<Key>, look: impl FnOnce(&[Key]) -> R) -> R {
        let keys = self.keys.lock();
        let mut len = self.len();
        let mut all = [Key::PLACEHOLDER; CAPACITY + 1];
        all[..len].copy_from_slice(&keys[..len]);
        if let Some(another) = another {
            all[len] = another;
            len += 1;
        }
        look(&all[..len])
    }
}

/// How many of `keys` have entries that are still in `hierarchy`.
pub(super) fn count_in(keys: &[Key], hierarchy: &Hierarchy<Waker>) -> usize {
    keys.iter().filter(|&&key| hierarchy.contains(key)).count()
}

/// The wakers of cancelled timers, to be dropped when no lock is held.
#[derive(Debug)]
#[must_use = "they are dropped with this: first the lock has to be let go"]
pub(super) struct Unwanted {
    wakers: [Option<Waker>; CAPACITY + OTHERS],
}

impl Unwanted {
    /// Takes entries out, but for those that were handed out meanwhile.
    pub(super) fn of(
        mut keys: [Option<Key>; CAPACITY + OTHERS],
        others: [Option<Key>; OTHERS],
        hierarchy: &mut Hierarchy<Waker>,
    ) -> Self {
        keys[CAPACITY..].copy_from_slice(&others);
        Self { wakers: hierarchy.cancel_all(keys) }
    }

    pub(super) fn len(&self) -> usize {
        self.wakers.iter().flatten().count()
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.wakers.iter_mut().for_each(|waker| drop_unwanted(waker.take()));
    }
}

/// Of a waker that is a stranger to whoever drops it. Not under a lock.
pub(super) fn drop_unwanted(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contained(|| drop(waker));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_are_to_be_taken_out_a_second_after_the_first() {
        let cancelled = Cancelled::new();
        let push = |secs| cancelled.push(Key::PLACEHOLDER, || Nanos::ZERO.after(Duration::from_secs(secs)));
        let clear_by = Nanos::ZERO.after(Duration::from_secs(11));
        assert_eq!(push(10), Pushed::First(clear_by));
        assert!((1..CAPACITY).all(|_| push(20) == Pushed::Joined));
        assert_eq!((push(20), cancelled.clear_by()), (Pushed::Full, clear_by));
    }

    #[test]
    fn the_first_does_not_put_off_what_the_driver_was_to_come_for_before() {
        let cancelled = Cancelled::new();
        let at = |millis| Nanos::ZERO.after(Duration::from_millis(millis));
        let clear_by = cancelled.clear_after(at(0));
        assert_eq!(clear_by, at(1_000));
        assert_eq!(cancelled.push(Key::PLACEHOLDER, || at(990)), Pushed::First(clear_by));
        assert_eq!(cancelled.clear_by(), clear_by);
        cancelled.take();
        assert_eq!(cancelled.push(Key::PLACEHOLDER, || at(990)), Pushed::First(at(1_990)));
    }
}
