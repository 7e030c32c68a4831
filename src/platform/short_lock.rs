//! The lock of a shard, and of its batch of leftovers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::sync::lock;

pub(crate) type ShortLockGuard<'a, T> = SpinMutexGuard<'a, T>;

/// A lock that is held for tens of nanoseconds, and for some 10 µs by a turn.
///
/// To take it is one locked instruction, to release it none: std's mutex takes a second one to find out whether a thread
/// sleeps on it. So nobody is woken when this lock is released. A thread that finds it held spins for longer than a turn
/// holds it. After that its holder is not running, and the thread gets in line. Only the first in line goes on
/// spinning, with short sleeps in between. Without the line every waiting thread went on spinning, and 32 threads made
/// a third as many timers as tokio.
///
/// Nobody overtakes a thread in line for long. The first in line reserves the lock. Without that, newcomers took the lock while
/// it slept, again and again. And each thread in line waits for the one before it, by a mutex that nobody else waits for. On
/// one mutex for all, a thread that has just come may overtake those that sleep.
#[derive(Debug)]
pub(crate) struct ShortLock<T> {
    lock: SpinMutex<T>,
    /// Whether only the first in line may take it. Relaxed: it only tells who has to wait.
    is_reserved: AtomicBool,
    /// The place of the last thread that got in line. A thread holds its place until it has the lock.
    last: Mutex<Option<Arc<Mutex<()>>>>,
}

impl<T> ShortLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: SpinMutex::new(value), is_reserved: AtomicBool::new(false), last: Mutex::new(None) }
    }

    /// `None` if the lock is held or reserved.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<ShortLockGuard<'_, T>> {
        if self.is_reserved.load(Ordering::Relaxed) { None } else { self.lock.try_lock() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> ShortLockGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    #[cold]
    fn wait(&self) -> ShortLockGuard<'_, T> {
        /// About as long as a sleeping thread takes to wake.
        const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);
        if let Some(guard) = self.spin(Self::try_lock) {
            return guard;
        }
        let place = Arc::new(Mutex::new(()));
        let _held_for_the_next = lock(&place);
        let before = lock(&self.last).replace(place.clone());
        let _its_place = before.as_deref().map(lock);
        self.is_reserved.store(true, Ordering::Relaxed);
        loop {
            if let Some(guard) = self.spin(|this| this.lock.try_lock()) {
                self.is_reserved.store(false, Ordering::Relaxed);
                return guard;
            }
            std::thread::sleep(SLEEP);
        }
    }

    fn spin<'a>(
        &'a self,
        try_lock: impl Fn(&'a Self) -> Option<ShortLockGuard<'a, T>>,
    ) -> Option<ShortLockGuard<'a, T>> {
        const SPINS: usize = 1_000;
        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            // Read before the lock is tried: an attempt takes the cache line away from the holder.
            if self.lock.is_locked() { None } else { try_lock(self) }
        })
    }
}

#[cfg(test)]
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
    fn nobody_overtakes_the_first_in_line() {
        const ROUNDS: usize = 20;
        let had_it = ShortLock::new(0);
        for round in 0..ROUNDS {
            let held = had_it.lock();
            thread::scope(|scope| {
                scope.spawn(|| *had_it.lock() += 1);
                while !had_it.is_reserved.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                // Meanwhile it sleeps as a rule.
                thread::sleep(NAP / 20);
                drop(held);
                assert_eq!(*had_it.lock(), round + 1, "it was overtaken");
            });
        }
    }

    #[test]
    fn threads_in_line_get_it_in_the_order_in_which_they_came() {
        const THREADS: usize = 8;
        const ROUNDS: usize = 20;
        for _ in 0..ROUNDS {
            let order = ShortLock::new(Vec::new());
            let held = order.lock();
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let last = order.last.lock().unwrap().clone();
                    let order = &order;
                    scope.spawn(move || order.lock().push(number));
                    let is_in_line = || {
                        let now = order.last.lock().unwrap().clone();
                        now.map(|place| Arc::as_ptr(&place)) != last.as_ref().map(Arc::as_ptr)
                    };
                    while !is_in_line() {
                        thread::yield_now();
                    }
                }
                drop(held);
            });
            assert_eq!(*order.lock(), (0..THREADS).collect::<Vec<_>>());
        }
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
