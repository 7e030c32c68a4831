//! The wall clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::id::later;

/// A wall clock, by which timers fall due. Its time may be set, forward and back, at any moment.
///
/// A function that tells the time is a clock, and [`SetClock`] is one for tests.
pub trait Clock: Send + Sync + 'static {
    /// The time that it shows.
    fn now(&self) -> Timestamp;

    /// Wakes this waker once, when the clock is set. Returns whether the clock can do so: the default cannot. Such a clock is
    /// looked at once a minute.
    fn wake_when_set(&self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }
}

impl<F: Fn() -> Timestamp + Send + Sync + 'static> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// The system's clock, or, if tokio's clock is paused, one that starts at the present time and follows that.
pub(crate) fn usual() -> Arc<dyn Clock> {
    if is_paused() { Arc::new(SetClock::starting_at(Timestamp::now())) } else { Arc::new(Timestamp::now) }
}

/// Whether tokio's clock stands while std's goes on.
fn is_paused() -> bool {
    let (before, std_before) = (Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == std_before {
        std::hint::spin_loop();
    }
    Instant::now() == before
}

/// A clock for tests. It goes on as tokio's clock does, paused or not, and a test can [set](Self::set) it. Clones are the
/// same clock.
#[derive(Clone)]
pub struct SetClock(Arc<Mutex<Shown>>);

struct Shown {
    /// The time that it showed, and when.
    now: Timestamp,
    since: Instant,
    wakers: Vec<Waker>,
}

impl SetClock {
    /// A clock that shows this time now.
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Shown { now, since: Instant::now(), wakers: Vec::new() })))
    }

    /// Makes it show this time now, as when an administrator or a time server sets the clock of a machine.
    pub fn set(&self, now: Timestamp) {
        let wakers = {
            let mut shown = self.shown();
            (shown.now, shown.since) = (now, Instant::now());
            std::mem::take(&mut shown.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        let (shown, since) = {
            let shown = self.shown();
            (shown.now, shown.since)
        };
        later(shown, since.elapsed())
    }

    fn wake_when_set(&self, waker: &Waker) -> bool {
        // Cloning a waker runs foreign code, so it is not done under the lock.
        let waker = waker.clone();
        let mut shown = self.shown();
        if !shown.wakers.iter().any(|there| there.will_wake(&waker)) {
            shown.wakers.push(waker);
        }
        true
    }
}

impl fmt::Debug for SetClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetClock").field(&self.now()).finish()
    }
}
