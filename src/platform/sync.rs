//! Locks and atomics of the concurrent part. Tests built with `--cfg loom` use loom's instead, or shuttle's
//! with `--cfg shuttle` too.

use std::ops::Deref;
use std::sync::OnceLock;

#[cfg(all(test, loom, not(shuttle)))]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(all(test, loom, shuttle))]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(all(test, loom, not(shuttle))))]
pub(crate) use futures::task::AtomicWaker;

#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// loom's, with the methods of the one in `futures`.
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

/// Locks `mutex`, even if a thread has panicked under it: no user's code runs under our locks, so a panic leaves nothing
/// half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A value for each process. A child by `fork` gets one of its own, because its parent's locks may be held by threads that the
/// child does not have.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    of_first: OnceLock<(u32, T)>,
    of_child: OnceLock<Box<Self>>,
}

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { of_first: OnceLock::new(), of_child: OnceLock::new() }
    }

    /// The value of the process with this number, which asks.
    pub(crate) fn of(&self, process: u32) -> &T {
        let (first, value) = self.of_first.get_or_init(|| (process, T::default()));
        if *first == process {
            value
        } else {
            self.of_child.get_or_init(|| Box::new(Self::new())).of(process)
        }
    }
}

/// A value on cache lines of its own, so that writes to its neighbours do not take them away. It has a pair of lines,
/// because processors fetch lines in pairs.
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

#[cfg(all(test, loom))]
use self::{Mutex as Spin, MutexGuard as SpinGuard};
#[cfg(not(all(test, loom)))]
use spin::mutex::{SpinMutex as Spin, SpinMutexGuard as SpinGuard};

pub(crate) type ShortLockGuard<'a, T> = SpinGuard<'a, T>;

/// The lock of a shard, and of its batch of leftovers, which is held for tens of nanoseconds, and for some 10 µs by a turn.
///
/// To take it is one locked instruction, to release it none: std's mutex takes a second one to find out whether a thread
/// sleeps on it. So nobody is woken when this lock is released. A thread that finds it held spins for longer than a turn
/// holds it. After that its holder is not running, and the thread gets in line. Only the first in line goes on
/// spinning, with short sleeps in between. Without the line every waiting thread went on spinning, and 32 threads made
/// a third as many timers as tokio.
#[derive(Debug)]
pub(crate) struct ShortLock<T> {
    lock: Spin<T>,
    #[cfg(not(all(test, loom)))]
    line: Mutex<()>,
}

impl<T> ShortLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            lock: Spin::new(value),
            #[cfg(not(all(test, loom)))]
            line: Mutex::new(()),
        }
    }

    /// `None` if the lock is held.
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        #[cfg(all(test, loom))]
        return self.lock.try_lock().ok();
        #[cfg(not(all(test, loom)))]
        return self.lock.try_lock();
    }

    #[cfg(all(test, loom))]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        lock(&self.lock)
    }

    #[cfg(not(all(test, loom)))]
    #[inline]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        match self.lock.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cfg(not(all(test, loom)))]
    #[cold]
    fn wait(&self) -> ShortLockGuard<'_, T> {
        const SPINS: usize = 1_000;
        /// About as long as a sleeping thread takes to wake.
        const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);
        let spin = || {
            (0..SPINS).find_map(|_| {
                std::hint::spin_loop();
                // Read before the lock is tried: an attempt takes the cache line away from the holder.
                if self.lock.is_locked() { None } else { self.lock.try_lock() }
            })
        };
        spin().unwrap_or_else(|| {
            let _first = lock(&self.line);
            loop {
                if let Some(guard) = spin() {
                    return guard;
                }
                std::thread::sleep(SLEEP);
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    /// How long a holder sleeps: longer than waiting threads spin.
    const NAP: Duration = Duration::from_millis(2);

    /// Each of `threads` threads adds one under the lock, `rounds` times. Between reading and writing it calls `hold`
    /// with the number of the round.
    fn count(threads: usize, rounds: usize, hold: impl Fn(usize) + Sync) -> usize {
        let counter = ShortLock::new(0);
        let start = Barrier::new(threads);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    start.wait();
                    for round in 0..rounds {
                        let mut counter = counter.lock();
                        let read = *counter;
                        hold(round);
                        *counter = read + 1;
                    }
                });
            }
        });
        *counter.lock()
    }

    #[test]
    fn each_process_has_a_value_of_its_own() {
        static VALUES: PerProcess<Mutex<u32>> = PerProcess::new();
        // The first process holds its lock for ever, as a thread does that its children do not have.
        let _held = VALUES.of(1).lock().unwrap();
        for child in [2, 3] {
            *VALUES.of(child).lock().unwrap() = child;
        }
        assert_eq!([2, 3].map(|child| *VALUES.of(child).lock().unwrap()), [2, 3]);
        assert!(VALUES.of(1).try_lock().is_err());
    }

    #[test]
    fn many_threads_count_under_it_and_nothing_is_lost() {
        const THREADS: usize = 8;
        const ROUNDS: usize = 20_000;
        assert_eq!(count(THREADS, ROUNDS, |_| std::hint::spin_loop()), THREADS * ROUNDS);
    }

    #[test]
    fn threads_that_wait_for_a_holder_that_sleeps_get_through() {
        const THREADS: usize = 6;
        const ROUNDS: usize = 60;
        let hold = |round: usize| {
            if round.is_multiple_of(10) {
                thread::sleep(NAP);
            } else if round.is_multiple_of(3) {
                thread::yield_now();
            }
        };
        assert_eq!(count(THREADS, ROUNDS, hold), THREADS * ROUNDS);
    }

    #[test]
    fn a_holder_that_panics_releases_it() {
        let lock = ShortLock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock();
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
