//! Locks and atomics of the concurrent part. Models have others, from `in_models`.

use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, OnceLock, PoisonError};

#[cfg(all(test, loom))]
mod in_models;

#[cfg(all(test, loom))]
pub(crate) use self::in_models::{
    AtomicU64, AtomicUsize, AtomicWaker, Condvar, Mutex, MutexGuard, Ordering, ShortLock, ShortLockGuard,
    fence,
};
#[cfg(not(all(test, loom)))]
pub(crate) use {
    super::short_lock::{ShortLock, ShortLockGuard},
    futures::task::AtomicWaker,
    std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    std::sync::{Condvar, Mutex, MutexGuard},
};

/// Locks `mutex`, even if a thread has panicked under it: no user's code runs under our locks, so a panic leaves nothing
/// half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for a mutex that is std's in models too, and so is hidden from them.
pub(crate) fn lock_hidden<T>(mutex: &StdMutex<T>) -> StdMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value for each process. A child by `fork` gets one of its own, because its parent's locks may be held by threads that the
/// child does not have.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    of_first: OnceLock<(u32, T)>,
    of_child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { of_first: OnceLock::new(), of_child: OnceLock::new() }
    }

    /// The value of the process with this number, which asks. `make` makes it at first use.
    pub(crate) fn of(&self, process: u32, make: fn() -> T) -> &T {
        let (first, value) = self.of_first.get_or_init(|| (process, make()));
        if *first == process {
            value
        } else {
            self.of_child.get_or_init(|| Box::new(Self::new())).of(process, make)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_value_of_its_own() {
        static VALUES: PerProcess<Mutex<u32>> = PerProcess::new();
        let value_of = |process| VALUES.of(process, Mutex::default);
        // The first process holds its lock for ever, as a thread does that its children do not have.
        let _held = value_of(1).lock().unwrap();
        for child in [2, 3] {
            *value_of(child).lock().unwrap() = child;
        }
        assert_eq!([2, 3].map(|child| *value_of(child).lock().unwrap()), [2, 3]);
        assert!(value_of(1).try_lock().is_err());
    }
}
