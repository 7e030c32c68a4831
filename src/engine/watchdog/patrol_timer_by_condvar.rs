//! What the watchdog's thread sleeps on where there are no timerfds. When another thread puts the patrol off, the
//! watchdog's thread still wakes at the old time, and sleeps again.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct PatrolTimer {
    times: Mutex<Times>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Times {
    /// When the wait is to end.
    end: Option<Instant>,
    /// When the thread wakes by itself. `None`: only when it is notified.
    wakes: Option<Instant>,
}

impl PatrolTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { times: Mutex::default(), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the [`wait`](Self::wait) after `delay`, instead of when it was to end before. `None` means never.
    pub(super) fn set(&self, delay: Option<Duration>) {
        let mut times = self.lock();
        // An end that is too far ahead for an `Instant` never comes.
        times.end = delay.and_then(|delay| Instant::now().checked_add(delay));
        if times.end.is_some_and(|end| times.wakes.is_none_or(|wakes| end < wakes)) {
            self.changed.notify_one();
        }
    }

    pub(super) fn wait(&self) {
        let mut times = self.lock();
        loop {
            let now = Instant::now();
            times = match times.end {
                Some(end) if end <= now => {
                    times.end = None;
                    return;
                }
                Some(end) => {
                    times.wakes = Some(end);
                    let waited = self.changed.wait_timeout(times, end - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    times.wakes = None;
                    self.changed.wait(times).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}
