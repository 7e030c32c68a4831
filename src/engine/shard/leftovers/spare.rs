//! The spare: one leftover, whose entry the next timer takes over as it stands.

use crate::platform::sync::{AtomicU64, Ordering};
use crate::platform::waker_id::WakerId;
use crate::wheel::Key;

#[derive(Debug)]
pub(super) struct Spare {
    /// The key of the leftover, or one of two vacancies: [`EMPTY`], [`EMPTY_AND_DUE`]. A timer that is dropped puts its key
    /// here without the lock; whoever takes it away holds the lock. Acquire and release: a thread that leaves a key after
    /// another was taken away sees what was done before that.
    key: AtomicU64,
    /// Which waker that entry has. Relaxed, a guess: another thread may be about to leave a key of its own.
    waker: AtomicU64,
}

/// Nothing has been left here since the driver looked.
const EMPTY: u64 = Key::vacancy(0).to_bits();
/// A timer has taken over what was left here. The driver has been told to come, or is about to be.
const EMPTY_AND_DUE: u64 = Key::vacancy(1).to_bits();

/// The key, unless it is a vacancy.
#[inline]
fn key_of(bits: u64) -> Option<Key> {
    Some(Key::from_bits(bits)).filter(|key| !key.is_vacancy())
}

impl Spare {
    pub(super) fn new() -> Self {
        Self { key: AtomicU64::new(EMPTY), waker: AtomicU64::new(0) }
    }

    /// Leaves a key here, and tells whether there was room. Calls `first` if it is the first since the driver looked.
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

    /// Whether there seems to be one.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        key_of(self.key.load(Ordering::Relaxed)).is_some()
    }

    /// Whether there seems to be one that has that waker.
    #[inline]
    pub(super) fn is_of(&self, waker: WakerId) -> bool {
        self.waker.load(Ordering::Relaxed) == waker.to_bits().get() && self.is_there()
    }

    /// For those who count, under the lock. Its entry may have been handed out.
    pub(super) fn look(&self) -> Option<Key> {
        key_of(self.key.load(Ordering::Acquire))
    }

    /// Takes it away, to take its entry over. Only under the lock, so that nobody else does.
    #[inline]
    pub(super) fn take(&self) -> Option<Key> {
        let key = self.look()?;
        self.key.store(EMPTY_AND_DUE, Ordering::Release);
        Some(key)
    }

    /// Takes it away, to clear it, once the driver has been told that it need not come any more. This is a swap even where
    /// nothing is here: so a thread that leaves a key after it knows that, and has the driver come.
    pub(super) fn clear(&self) -> Option<Key> {
        key_of(self.key.swap(EMPTY, Ordering::AcqRel))
    }
}
