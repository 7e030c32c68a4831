//! A lock for short holds. To take it is one locked instruction, to release it none.
//!
//! std's mutex takes a locked instruction as it is released, to find out whether a thread sleeps on it. This lock wakes
//! nobody. A thread that finds it held spins for a while. After that it waits in line, and the first in line spins and
//! sleeps, for a fixed, short time. So a preempted holder gets its turn, even if the waiting threads have a higher
//! priority, and however many they are.

#[cfg(all(test, loom))]
use super::{Mutex, MutexGuard as Guard};
#[cfg(not(all(test, loom)))]
use spin::mutex::{SpinMutex as Mutex, SpinMutexGuard as Guard};

pub(crate) type ShortLockGuard<'a, T> = Guard<'a, T>;

#[derive(Debug)]
pub(crate) struct ShortLock<T> {
    value: Mutex<T>,
    /// Held by the one waiting thread that looks at the lock again and again. The others wait for it.
    #[cfg(not(all(test, loom)))]
    line: std::sync::Mutex<()>,
}

impl<T> ShortLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            #[cfg(not(all(test, loom)))]
            line: std::sync::Mutex::new(()),
        }
    }

    /// `None` if the lock is held.
    #[cfg(all(test, loom))]
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        self.value.try_lock().ok()
    }

    /// `None` if the lock is held.
    #[cfg(not(all(test, loom)))]
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        self.value.try_lock()
    }

    #[cfg(all(test, loom))]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        super::lock(&self.value)
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
        use std::sync::PoisonError;
        use std::time::Duration;

        /// About as long as a sleeping thread takes to wake.
        const SLEEP: Duration = Duration::from_micros(50);

        if let Some(guard) = self.spin() {
            return guard;
        }
        let _first = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(guard) = self.spin() {
                return guard;
            }
            std::thread::sleep(SLEEP);
        }
    }

    #[cfg(not(all(test, loom)))]
    fn spin(&self) -> Option<ShortLockGuard<'_, T>> {
        /// This takes longer than the driver holds a shard. If the lock is still held then, its holder is not running.
        const SPINS: usize = 1_000;

        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            // Read before the lock is tried: an attempt takes the cache line away from the holder.
            if self.value.is_locked() { None } else { self.value.try_lock() }
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
