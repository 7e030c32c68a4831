//! State that the handle and the runner share.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{Error, with_causes};
use crate::events::event;
use crate::health::Stats;
use crate::store::{Kinds, Owner};

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    /// The number of the owner that this instance is now.
    epoch: AtomicU64,
    /// How many numbers were given out.
    numbers: AtomicU64,
    /// From this moment on the time of a shared store is reckoned.
    origin: Instant,
    /// What the store's clock showed then, in microseconds, or [`BY_OWN_CLOCK`].
    shown_us: AtomicI64,
    /// When the first timer is due that has not begun. Armed ones are left out, unless they wait although they are due.
    first_due_ms: AtomicI64,
    /// When an event told last that the store has failed, by std's clock.
    told_failure: Mutex<Option<std::time::Instant>>,
    stats: Mutex<Stats>,
    /// The kinds that have a handler here.
    kinds: Kinds,
    /// The kinds without one that an event has named.
    told_of: Mutex<BTreeSet<String>>,
}

/// The shortest time from one event of a store that fails to the next.
const SELDOM: Duration = Duration::from_secs(1);

/// Timers are due by the instance's own clock, as far as is known.
const BY_OWN_CLOCK: i64 = i64::MIN;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("owner", &self.owner()).finish_non_exhaustive()
    }
}

/// Notes if a task ends by a panic, for example in a clock or a store of the user's. The panic hook has reported it.
pub(crate) struct Watched(pub(crate) Arc<Shared>);

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stats().failed = true;
        }
    }
}

impl Shared {
    pub(crate) fn new(clock: Arc<dyn Clock>, owner: Owner, kinds: Kinds) -> Self {
        Self {
            clock,
            epoch: AtomicU64::new(owner.epoch),
            numbers: AtomicU64::new(0),
            origin: Instant::now(),
            shown_us: AtomicI64::new(BY_OWN_CLOCK),
            first_due_ms: AtomicI64::new(i64::MAX),
            told_failure: Mutex::default(),
            stats: Mutex::default(),
            kinds,
            told_of: Mutex::default(),
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { epoch: self.epoch.load(Ordering::Acquire) }
    }

    /// Counts the numbers that are given out.
    pub(crate) fn count(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// It has joined again.
    pub(crate) fn set_owner(&self, owner: Owner) {
        self.epoch.store(owner.epoch, Ordering::Release);
    }

    /// The time by which timers are due. If that is the store's, it goes on as the monotonic clock does, so it does not move if the
    /// machine's clock is set.
    pub(crate) fn now(&self) -> Timestamp {
        let shown = self.shown_us.load(Ordering::Relaxed);
        if shown == BY_OWN_CLOCK {
            return self.clock.now();
        }
        Timestamp::from_microsecond(shown.saturating_add(self.passed_us(Instant::now())))
            .unwrap_or(Timestamp::MAX)
    }

    /// Whether timers are due by a clock that nobody sets between two comparisons.
    pub(crate) fn goes_by_store(&self) -> bool {
        self.shown_us.load(Ordering::Relaxed) != BY_OWN_CLOCK
    }

    fn passed_us(&self, now: Instant) -> i64 {
        i64::try_from(now.saturating_duration_since(self.origin).as_micros()).unwrap_or(i64::MAX)
    }

    /// The store's clock showed `clock` at some time between `before` and `after`. So it is known only within these: if what is
    /// known may be right it stays, and otherwise it becomes the least that may be, so that no timer is early. Returns whether it
    /// changed.
    pub(crate) fn compare(&self, (before, after): (Instant, Instant), clock: Timestamp) -> bool {
        let at_origin = |shown_at| clock.as_microsecond().saturating_sub(self.passed_us(shown_at));
        let (least, most) = (at_origin(after), at_origin(before));
        let is_wrong = !(least..=most).contains(&self.shown_us.load(Ordering::Relaxed));
        if is_wrong {
            self.shown_us.store(least, Ordering::Relaxed);
        }
        let offset = self.now().duration_since(self.clock.now());
        self.stats().clock_offset = offset;
        is_wrong
    }

    /// The kinds that have a handler here.
    pub(crate) fn kinds(&self) -> Kinds {
        Kinds::clone(&self.kinds)
    }

    /// Held for a few counts, and never while user code runs.
    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_first_due(&self, due_ms: Option<i64>) {
        self.first_due_ms.store(due_ms.unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// How long the first timer has been due that has not begun.
    pub(crate) fn behind(&self) -> Duration {
        let passed = self.now().as_millisecond().saturating_sub(self.first_due_ms.load(Ordering::Relaxed));
        Duration::from_millis(u64::try_from(passed).unwrap_or(0))
    }

    pub(crate) fn failed(&self, error: &Error) {
        let errors = {
            let mut stats = self.stats();
            stats.store_errors += 1;
            stats.store_errors
        };
        let now = std::time::Instant::now();
        let is_told = {
            let mut told = self.told_failure.lock().unwrap_or_else(PoisonError::into_inner);
            let is_seldom = told.is_none_or(|told| now.saturating_duration_since(told) >= SELDOM);
            if is_seldom {
                *told = Some(now);
            }
            is_seldom
        };
        if is_told {
            event!(warn, error = with_causes(error), errors, "a store of timers fails");
        }
    }

    pub(crate) fn has_handler(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }

    /// A timer of this kind is saved. If the kind has no handler here, an event says so once: a handler is easily forgotten.
    pub(crate) fn note_kind(&self, kind: &str) {
        if self.kinds.is_empty() || self.has_handler(kind) {
            return;
        }
        self.stats().saved_unhandled += 1;
        let is_new = self.told_of.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.to_owned());
        if is_new {
            event!(warn, kind, "a timer is saved whose kind has no handler here");
        }
    }
}
