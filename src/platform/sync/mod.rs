//! The locks and atomics of the concurrent part. In tests built with `--cfg loom` they are the model checker's: loom's,
//! or with `--cfg shuttle` too, shuttle's.

mod references;
mod short_lock;
mod statics;

use std::ops::Deref;

pub(crate) use references::{count_one_more, references_to, uncount};
pub(crate) use short_lock::{ShortLock, ShortLockGuard, ShortLockWithLine};
pub(crate) use statics::statics;

#[cfg(all(test, loom, not(shuttle)))]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(all(test, loom, shuttle))]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(all(test, loom, not(shuttle))))]
pub(crate) use futures::task::AtomicWaker;

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
};

/// loom's, with the methods of that of `futures`.
#[cfg(all(test, loom, not(shuttle)))]
#[derive(Debug)]
pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

#[cfg(all(test, loom, not(shuttle)))]
impl AtomicWaker {
    pub(crate) fn new() -> Self {
        Self(loom::future::AtomicWaker::new())
    }

    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.0.register_by_ref(waker);
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn take(&self) -> Option<std::task::Waker> {
        self.0.take_waker()
    }
}

/// Locks `mutex`, even if a thread has panicked under it: no users' code runs under our locks, so what they guard is
/// never left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A value on cache lines of its own, so that writes to its neighbours do not take them away. It has whole pairs of
/// lines, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OwnLines<T>(pub(crate) T);

impl<T> Deref for OwnLines<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
