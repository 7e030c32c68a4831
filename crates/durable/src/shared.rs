//! State that the handle and the runner share.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::error::Error;
use crate::events::Events;
use crate::health::Stats;
use crate::store::{Kinds, Owner};

pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    /// The number of the owner that this instance is now.
    epoch: AtomicU64,
    /// If timers are due by the store's clock: how many microseconds that is ahead of `clock`.
    offset_us: AtomicI64,
    pub(crate) events: Events,
    stats: Mutex<Stats>,
    /// The kinds that have a handler here.
    kinds: Kinds,
    /// The kinds without one that an event has named.
    told_of: Mutex<BTreeSet<String>>,
}

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
            offset_us: AtomicI64::new(0),
            events: Events::default(),
            stats: Mutex::default(),
            kinds,
            told_of: Mutex::default(),
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner { epoch: self.epoch.load(Ordering::Acquire) }
    }

    /// It has joined again.
    pub(crate) fn set_owner(&self, owner: Owner) {
        self.epoch.store(owner.epoch, Ordering::Release);
    }

    /// The time by which timers are due.
    pub(crate) fn now(&self) -> Timestamp {
        let (now, offset) = (self.clock.now(), self.offset());
        if offset.is_zero() { now } else { now.saturating_add(offset).unwrap_or(Timestamp::MAX) }
    }

    pub(crate) fn offset(&self) -> SignedDuration {
        SignedDuration::from_micros(self.offset_us.load(Ordering::Relaxed))
    }

    /// The store's clock showed `clock` at some time between `before` and `after`. So it is known only within these: if the offset
    /// may be right it stays, and otherwise it becomes the least that may be, so that no timer is early. Returns whether it changed.
    pub(crate) fn compare(&self, (before, after): (Timestamp, Timestamp), clock: Timestamp) -> bool {
        let (least, most) = (clock.duration_since(after), clock.duration_since(before));
        let is_wrong = !(least..=most).contains(&self.offset());
        if is_wrong {
            self.set_offset(least);
        }
        is_wrong
    }

    fn set_offset(&self, offset: SignedDuration) {
        let micros = i64::try_from(offset.as_micros()).unwrap_or(0);
        self.offset_us.store(micros, Ordering::Relaxed);
        self.stats().clock_offset = offset;
    }

    /// The kinds that have a handler here.
    pub(crate) fn kinds(&self) -> Kinds {
        Kinds::clone(&self.kinds)
    }

    /// Held for a few counts, and never while user code runs.
    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, error: &Error) {
        let errors = {
            let mut stats = self.stats();
            stats.store_errors += 1;
            stats.store_errors
        };
        self.events.failed(error, errors);
    }

    /// A timer of this kind is saved. If the kind has no handler here, an event says so once: a handler is easily forgotten.
    pub(crate) fn note_kind(&self, kind: &str) {
        if self.kinds.is_empty() || self.kinds.contains(kind) {
            return;
        }
        self.stats().saved_unhandled += 1;
        let is_new = self.told_of.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.to_owned());
        if is_new {
            self.events.saved_unhandled(kind);
        }
    }
}
