//! The locks and atomics of a model, which the model checker watches: loom's, or shuttle's with `--cfg shuttle`.

#[cfg(not(shuttle))]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(shuttle)]
pub(crate) use {
    futures::task::AtomicWaker,
    shuttle::sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// loom's, with the methods of the one in `futures`.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

#[cfg(not(shuttle))]
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

pub(crate) type ShortLockGuard<'a, T> = MutexGuard<'a, T>;

/// As a shard's lock, without waiting by spinning.
#[derive(Debug)]
pub(crate) struct ShortLock<T>(Mutex<T>);

impl<T> ShortLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        self.0.lock().expect("nothing panics under it")
    }
}
