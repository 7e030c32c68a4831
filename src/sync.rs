//! The locks and atomics of the concurrent part: std's, or the model checker's in a build with `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::{
    future::AtomicWaker,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

#[cfg(not(loom))]
pub(crate) use {
    futures::task::AtomicWaker,
    std::sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// Locks, also after a panic elsewhere: no code of a user's runs under our locks, so what they guard is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
