//! The spare: one leftover, whose entry the next timer takes over.

use crate::platform::sync::{AtomicU64, Ordering};
use crate::platform::waker_id::WakerId;
use crate::wheel::Key;

#[derive(Debug)]
pub(super) struct Spare {
    /// The key of the leftover, or one of two vacancies: [`EMPTY`], [`EMPTY_AND_DUE`]. A dropped timer puts its key
    /// here without the shard's lock. Only a thread that holds the lock takes a key away. Acquire and release: a thread
    /// that leaves a key after another one was taken away sees what was done before that.
    key: AtomicU64,
    /// Which waker the entry has. Relaxed, because this is a guess: another thread may be about to leave a key of its
    /// own.
    waker: AtomicU64,
}

/// No key has been left here since the leftovers were cleared.
const EMPTY: u64 = Key::vacancy(0).to_bits();
/// A timer has taken over the key that was left here. The turner has been asked to come, or is about to be.
const EMPTY_AND_DUE: u64 = Key::vacancy(1).to_bits();

/// The key that has these bits, unless it is a vacancy.
#[inline]
fn key_of(bits: u64) -> Option<Key> {
    Some(Key::from_bits(bits)).filter(|key| !key.is_vacancy())
}

impl Spare {
    pub(super) fn new() -> Self {
        Self { key: AtomicU64::new(EMPTY), waker: AtomicU64::new(0) }
    }

    /// Leaves a key here. Returns false if there is one already. Calls `first` if this is the first key since the
    /// leftovers were cleared.
    #[inline]
    pub(super) fn leave(&self, key: Key, waker: WakerId, first: impl FnOnce()) -> bool {
        let before = self.key.load(Ordering::Relaxed);
        if key_of(before).is_some() {
            return false;
        }
        self.waker.store(waker.to_bits().get(), Ordering::Relaxed);
        let left = self.key.compare_exchange(before, key.to_bits(), Ordering::AcqRel, Ordering::Relaxed);
        if left == Ok(EMPTY) {
            first();
        }
        left.is_ok()
    }

    /// Whether there seems to be a key.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        key_of(self.key.load(Ordering::Relaxed)).is_some()
    }

    /// Whether there seems to be a key, of an entry that has this waker.
    #[inline]
    pub(super) fn is_of(&self, waker: WakerId) -> bool {
        self.waker.load(Ordering::Relaxed) == waker.to_bits().get() && self.is_there()
    }

    /// The key, for a thread that counts under the shard's lock. Its entry may have been handed out.
    pub(super) fn peek(&self) -> Option<Key> {
        key_of(self.key.load(Ordering::Acquire))
    }

    /// Takes the key away, so that its entry can be taken over. The caller holds the shard's lock, so that no other
    /// thread takes the key too.
    #[inline]
    pub(super) fn take(&self) -> Option<Key> {
        let key = self.peek()?;
        self.key.store(EMPTY_AND_DUE, Ordering::Release);
        Some(key)
    }

    /// Takes the key away, to clear it. Call this after [`Batch::clear`](super::Batch::clear), after which the turner
    /// need not come. This is a swap even if no key is here: so a thread that leaves a key later sees that the turner
    /// need not come any more, and asks it to come.
    pub(super) fn clear(&self) -> Option<Key> {
        key_of(self.key.swap(EMPTY, Ordering::AcqRel))
    }
}
