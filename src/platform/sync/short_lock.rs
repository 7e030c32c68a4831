//! A lock for short holds. To take it is one locked instruction, to release it none.
//!
//! std's mutex takes a locked instruction as it is released, to find out whether a thread sleeps on it. This lock wakes
//! nobody. A thread that finds it held spins for a while, and then sleeps for a fixed, short time. So a preempted
//! holder gets its turn, even if the waiting threads have a higher priority.

#[cfg(not(all(test, loom)))]
use std::time::Duration;

#[cfg(all(test, loom))]
use super::{Mutex, MutexGuard as Guard};
#[cfg(not(all(test, loom)))]
use spin::mutex::{SpinMutex as Mutex, SpinMutexGuard as Guard};

pub(crate) type ShortLockGuard<'a, T> = Guard<'a, T>;

#[derive(Debug)]
pub(crate) struct ShortLock<T>(Mutex<T>);

impl<T> ShortLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// `None` if the lock is held.
    #[cfg(all(test, loom))]
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// `None` if the lock is held.
    #[cfg(not(all(test, loom)))]
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cfg(all(test, loom))]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        super::lock(&self.0)
    }

    #[cfg(not(all(test, loom)))]
    #[inline]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cfg(not(all(test, loom)))]
    #[cold]
    fn wait(&self) -> ShortLockGuard<'_, T> {
        loop {
            if let Some(guard) = self.spin() {
                return guard;
            }
            std::thread::sleep(SLEEP);
        }
    }

    #[cfg(not(all(test, loom)))]
    fn spin(&self) -> Option<ShortLockGuard<'_, T>> {
        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            // Read before the lock is tried: an attempt takes the cache line away from the holder.
            if self.0.is_locked() { None } else { self.0.try_lock() }
        })
    }
}

/// This takes longer than the driver holds a shard. If the lock is still held then, its holder is not running.
#[cfg(not(all(test, loom)))]
const SPINS: usize = 1_000;

/// About as long as a sleeping thread takes to wake.
#[cfg(not(all(test, loom)))]
const SLEEP: Duration = Duration::from_micros(50);

/// A short lock that very many threads may want at the same time. After it has spun, a thread waits in line, and only the
/// first in line spins and sleeps. So the others leave the processors to the holder.
#[derive(Debug)]
pub(crate) struct ShortLockWithLine<T> {
    lock: ShortLock<T>,
    /// The first in line holds it.
    #[cfg(not(all(test, loom)))]
    line: std::sync::Mutex<()>,
}

impl<T> ShortLockWithLine<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            lock: ShortLock::new(value),
            #[cfg(not(all(test, loom)))]
            line: std::sync::Mutex::new(()),
        }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        self.lock.lock()
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
        self.lock.spin().unwrap_or_else(|| {
            let _first = self.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            self.lock.wait()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::sync::Barrier;
    use std::thread;

    /// How long a holder sleeps: longer than waiting threads spin.
    const NAP: Duration = Duration::from_millis(2);

    /// Each of `threads` threads adds one under the lock, `rounds` times. Between reading and writing it calls `hold`
    /// with the number of the round.
    fn count(threads: usize, rounds: usize, hold: impl Fn(usize) + Sync) -> usize {
        let counter = ShortLockWithLine::new(0);
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
    fn who_waits_finds_what_the_holder_wrote_at_the_end_of_a_long_hold() {
        let lock = ShortLock::new("before");
        let held = Barrier::new(3);
        thread::scope(|scope| {
            let waiters = [(); 2].map(|()| {
                scope.spawn(|| {
                    held.wait();
                    *lock.lock()
                })
            });
            let mut guard = lock.lock();
            held.wait();
            thread::sleep(NAP);
            *guard = "after";
            drop(guard);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), "after");
            }
        });
    }

    #[test]
    fn it_is_let_go_by_a_holder_that_panics() {
        let lock = ShortLock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock();
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
