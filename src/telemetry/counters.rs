//! The counters of a wheel, and its events of the crate `tracing`. Shards have counters of their own.
//!
//! Without the feature `tracing` no event is sent. Subscribers are users' code. They are called under no lock, and their
//! panics do not reach the caller. A thread that arms a timer may hold locks of its own. So it only notes that the timer was
//! refused, or that the system gave no watchdog, and the driver's task reports it.

use std::io;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use crate::platform::clock::stopwatch;
use crate::platform::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, lock_hidden};
#[cfg(feature = "tracing")]
use crate::platform::wakers::contained;
use crate::telemetry::histogram::Histogram;
use crate::telemetry::stats::Stats;

/// Sends an event of a wheel, with the feature `tracing`.
macro_rules! send {
    ($level:ident, $counters:expr, $($event:tt)*) => {
        #[cfg(feature = "tracing")]
        contained(|| tracing::$level!(target: "timingwheel", wheel = $counters.name, $($event)*));
    };
}

/// The shortest time from one report to the next of something that may happen very often, by std's clock.
const SELDOM: Duration = Duration::from_secs(1);

/// All are relaxed, because they guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The wheel's name.
    pub(crate) name: String,
    /// A lock that only turns and readers take guards it, so a turn needs no locked instruction for each timer.
    lateness: Mutex<Histogram>,
    turns: AtomicU64,
    refused: Count,
    stalls: Count,
    wakers_panicked: Count,
    /// Whether the driver's task has to report a refusal.
    has_refused: AtomicBool,
    /// What the system has refused, for the driver's task to report.
    not_given: StdMutex<Vec<(&'static str, io::Error)>>,
    /// How many timers were pending in shards that have ended.
    pending_at_end: AtomicUsize,
    has_ended: AtomicBool,
}

#[cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "nothing is sent"))]
impl Counters {
    pub(crate) fn of(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    pub(crate) fn begins(
        &self,
        tick: Duration,
        wheel_size: usize,
        shards: usize,
        max_pending: Option<usize>,
    ) {
        send!(debug, self, ?tick, wheel_size, shards, max_pending, "a timing wheel begins");
    }

    /// A shard ends with `pending` timers. Called under the shard's lock, so a thread that finds all shards ended finds all
    /// of these counts.
    pub(crate) fn shard_ends(&self, pending: usize) {
        self.pending_at_end.fetch_add(pending, Ordering::Relaxed);
    }

    /// All shards have ended. Only the first call reports it.
    pub(crate) fn ended(&self) {
        self.send_noted();
        let is_told = self.has_ended.swap(true, Ordering::Relaxed);
        if !is_told {
            let pending = self.pending_at_end.load(Ordering::Relaxed);
            send!(debug, self, pending, "a timing wheel has ended");
        }
    }

    /// For a turn, before it takes a shard's lock. Reading it takes a microsecond, for which only the turn waits, and
    /// no thread that arms or cancels.
    pub(crate) fn lateness(&self) -> MutexGuard<'_, Histogram> {
        lock(&self.lateness)
    }

    /// A turn begins.
    pub(crate) fn turned(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// A timer was refused because the wheel is full. Returns whether the caller has to wake the driver's task, which then
    /// reports it.
    pub(crate) fn refused(&self) -> bool {
        let has_to_tell = self.refused.add().is_some();
        if has_to_tell {
            // Waking the task is a release, and the task acquires before it reads this.
            self.has_refused.store(true, Ordering::Relaxed);
        }
        has_to_tell
    }

    /// The system did not give what the wheel asked for. The driver's task reports it.
    pub(crate) fn not_given(&self, what: &'static str, error: io::Error) {
        lock_hidden(&self.not_given).push((what, error));
    }

    /// For the driver's task, while it holds no lock: reports what other threads have noted.
    pub(crate) fn send_noted(&self) {
        let is_mine_to_tell = self.has_refused.swap(false, Ordering::Relaxed);
        if is_mine_to_tell {
            let refused = self.refused.total();
            send!(warn, self, refused, "a timing wheel is full and refuses a timer");
        }
        let not_given = std::mem::take(&mut *lock_hidden(&self.not_given));
        for (what, error) in &not_given {
            let error: &dyn std::error::Error = error;
            send!(warn, self, what, error, "a timing wheel goes on without what the system refused");
        }
    }

    /// A turn is so late that the whole runtime may have stalled.
    #[cold]
    pub(crate) fn stalled(&self) {
        if let Some(stalls) = self.stalls.add() {
            send!(info, self, stalls, "a timing wheel was turned late");
        }
    }

    /// A waker panicked when its timer fired, or when the wheel ended.
    #[cold]
    pub(crate) fn waker_panicked(&self) {
        if let Some(panicked) = self.wakers_panicked.add() {
            send!(error, self, panicked, "a waker panicked as a timing wheel woke it");
        }
    }

    /// Code that a library runs for a timer has panicked, and the library reports that.
    #[cold]
    pub(crate) fn note_panic(&self) {
        self.wakers_panicked.total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copy_to(&self, stats: &mut Stats) {
        stats.lateness.copy_from(&lock(&self.lateness));
        stats.turns = self.turns.load(Ordering::Relaxed);
        stats.refused = self.refused.total();
        stats.stalls = self.stalls.total();
        stats.wakers_panicked = self.wakers_panicked.total();
    }
}

/// How many times something has happened that is reported once in [`SELDOM`] at most.
#[derive(Debug, Default)]
struct Count {
    total: AtomicU64,
    reported: StdMutex<Option<Instant>>,
}

impl Count {
    fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts one. Returns the total if the caller has to report it.
    fn add(&self) -> Option<u64> {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        if !cfg!(feature = "tracing") {
            return None;
        }
        let now = stopwatch();
        let mut reported = lock_hidden(&self.reported);
        let is_time = reported.is_none_or(|last| now.saturating_duration_since(last) >= SELDOM);
        if is_time {
            *reported = Some(now);
        }
        is_time.then_some(total)
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
        let (counts, wheel) = (Counts::default(), Counters::default());
        with_default(counts.clone(), || {
            wheel.not_given("a thread", io::ErrorKind::WouldBlock.into());
            assert_eq!(counts.0.load(Ordering::Relaxed), 0);
            wheel.send_noted();
            wheel.send_noted();
            assert_eq!(counts.0.load(Ordering::Relaxed), 1);
        });
    }
}
