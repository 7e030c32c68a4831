//! Events of the crate `tracing`. Without the feature `tracing` nothing is sent.
//!
//! Subscribers are users' code. They are called under no lock, and their panics do not reach the caller. A thread that arms a
//! timer may hold locks of its own. So it only notes that the timer was refused, or that the system gave no watchdog, and the
//! driver's task reports it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::platform::clock::stopwatch;
#[cfg(feature = "tracing")]
use crate::platform::wakers::contained;

/// Sends an event, with the feature `tracing`.
macro_rules! send {
    ($level:ident, $($event:tt)*) => {
        #[cfg(feature = "tracing")]
        contained(|| tracing::$level!(target: "timingwheel", $($event)*));
    };
}

/// The shortest time from one report to the next of something that may happen very often, by std's clock.
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Events {
    refused: Seldom,
    /// Whether the driver's task has to report a refusal.
    has_refused: AtomicBool,
    /// What the system has refused, for the driver's task to report.
    not_given: Mutex<Vec<(&'static str, io::Error)>>,
    stalled: Seldom,
    waker_panicked: Seldom,
    /// How many timers were pending in shards that have ended.
    pending_at_end: AtomicUsize,
    has_ended: AtomicBool,
}

#[cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "nothing is sent"))]
impl Events {
    pub(crate) fn new() -> Self {
        Self {
            refused: Seldom::default(),
            has_refused: AtomicBool::new(false),
            not_given: Mutex::default(),
            stalled: Seldom::default(),
            waker_panicked: Seldom::default(),
            pending_at_end: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn begins(
        &self,
        wheel: &str,
        tick: Duration,
        wheel_size: usize,
        shards: usize,
        max_pending: Option<usize>,
    ) {
        send!(debug, wheel, ?tick, wheel_size, shards, max_pending, "a timing wheel begins");
    }

    /// A timer was refused. Returns whether the caller has to wake the driver's task, which then reports it.
    pub(crate) fn refused(&self) -> bool {
        let has_to_tell = cfg!(feature = "tracing") && self.refused.begin_report();
        if has_to_tell {
            // Relaxed: waking the task is a release, and the task acquires before it reads this.
            self.has_refused.store(true, Ordering::Relaxed);
        }
        has_to_tell
    }

    /// The system did not give what the wheel asked for. The driver's task reports it.
    pub(crate) fn not_given(&self, what: &'static str, error: io::Error) {
        lock(&self.not_given).push((what, error));
    }

    /// For the driver's task, while it holds no lock: reports what other threads have noted. `refused` counts all timers
    /// that were refused so far.
    pub(crate) fn tell_noted(&self, wheel: &str, refused: impl FnOnce() -> u64) {
        let is_mine_to_tell = self.has_refused.swap(false, Ordering::Relaxed);
        if is_mine_to_tell {
            let refused = refused();
            send!(warn, wheel, refused, "a timing wheel is full and refuses a timer");
        }
        let not_given = std::mem::take(&mut *lock(&self.not_given));
        for (what, error) in &not_given {
            let error: &dyn std::error::Error = error;
            send!(warn, wheel, what, error, "a timing wheel goes on without what the system refused");
        }
    }

    pub(crate) fn stalled(&self, wheel: &str, stalls: u64) {
        if self.stalled.begin_report() {
            send!(info, wheel, stalls, "a timing wheel was turned late");
        }
    }

    pub(crate) fn waker_panicked(&self, wheel: &str, panicked: u64) {
        if self.waker_panicked.begin_report() {
            send!(error, wheel, panicked, "a waker panicked as a timing wheel woke it");
        }
    }

    /// A shard ends with `pending` timers. Called under the shard's lock, so whoever finds all shards ended finds all of these
    /// counts.
    pub(crate) fn shard_ends(&self, pending: usize) {
        self.pending_at_end.fetch_add(pending, Ordering::Relaxed);
    }

    /// All shards have ended. Only the first call reports it.
    pub(crate) fn ended(&self, wheel: &str) {
        let is_told = self.has_ended.swap(true, Ordering::Relaxed);
        if !is_told {
            let pending = self.pending_at_end.load(Ordering::Relaxed);
            send!(debug, wheel, pending, "a timing wheel has ended");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that may happen again and again, and is reported once in [`SELDOM`] at most.
#[derive(Debug, Default)]
struct Seldom {
    last: Mutex<Option<std::time::Instant>>,
}

impl Seldom {
    /// Whether the last report is long enough ago for another. If so, the caller has to make it: it counts from now on.
    fn begin_report(&self) -> bool {
        let now = stopwatch();
        let mut last = lock(&self.last);
        let is_time = last.is_none_or(|last| now.saturating_duration_since(last) >= SELDOM);
        if is_time {
            *last = Some(now);
        }
        is_time
    }
}

#[cfg(all(test, feature = "tracing", not(loom)))]
mod tests {
    use std::sync::Arc;

    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::with_default;
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Counts the events of its thread.
    #[derive(Clone, Default)]
    struct Counts(Arc<AtomicUsize>);

    impl Subscriber for Counts {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// The thread that arms a timer may hold a user's locks.
    #[test]
    fn what_the_system_refused_is_told_by_the_driver_once_and_not_by_the_thread_that_arms_a_timer() {
        let (counts, events) = (Counts::default(), Events::new());
        with_default(counts.clone(), || {
            events.not_given("a thread", io::ErrorKind::WouldBlock.into());
            assert_eq!(counts.0.load(Ordering::Relaxed), 0);
            events.tell_noted("wheel", || 0);
            events.tell_noted("wheel", || 0);
            assert_eq!(counts.0.load(Ordering::Relaxed), 1);
        });
    }
}
