//! With the feature `tracing`. Subscribers are user code: they are called while no lock is held, and their panics are
//! contained. A refusal may happen under a lock of a job, or of many jobs. So it is noted first, and the driver's task
//! reports it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::platform::clock::stopwatch;
use crate::platform::contain::contained;

const TARGET: &str = "timingwheel";

/// At most one event of a kind in this time, by std's clock, where very many may happen.
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Events {
    refused: Seldom,
    /// Whether the driver's task has a refusal to report.
    has_refused: AtomicBool,
    stalled: Seldom,
    waker_panicked: Seldom,
    /// How many timers were pending in the shards that have ended.
    pending_at_end: AtomicUsize,
    has_ended: AtomicBool,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            refused: Seldom::default(),
            has_refused: AtomicBool::new(false),
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
        contained(
            || debug!(target: TARGET, wheel, ?tick, wheel_size, shards, max_pending, "a timing wheel begins"),
        );
    }

    /// A timer was refused. Returns whether the driver's task has to be woken to report it.
    pub(crate) fn refused(&self) -> bool {
        let is_told = self.refused.is_time();
        if is_told {
            // Relaxed: waking the task is a release, and the task acquires before it looks.
            self.has_refused.store(true, Ordering::Relaxed);
        }
        is_told
    }

    /// For the driver's task, while it holds no lock: reports a refusal if one was noted. `refused` counts those so far.
    pub(crate) fn tell_refused(&self, wheel: &str, refused: impl FnOnce() -> u64) {
        // One load if there is nothing to report.
        if self.has_refused.load(Ordering::Relaxed) && self.has_refused.swap(false, Ordering::Relaxed) {
            let refused = refused();
            contained(|| warn!(target: TARGET, wheel, refused, "a timing wheel is full and refuses a timer"));
        }
    }

    pub(crate) fn stalled(&self, wheel: &str, stalls: u64) {
        self.stalled.tell(|| info!(target: TARGET, wheel, stalls, "a timing wheel was turned late"));
    }

    pub(crate) fn waker_panicked(&self, wheel: &str, panicked: u64) {
        self.waker_panicked
            .tell(|| error!(target: TARGET, wheel, panicked, "a waker panicked as a timing wheel woke it"));
    }

    /// A shard ends with this many timers pending.
    pub(crate) fn shard_ends(&self, pending: usize) {
        self.pending_at_end.fetch_add(pending, Ordering::Relaxed);
    }

    /// All shards have ended. Only the first call sends the event.
    pub(crate) fn ended(&self, wheel: &str) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            let pending = self.pending_at_end.load(Ordering::Relaxed);
            contained(|| debug!(target: TARGET, wheel, pending, "a timing wheel has ended"));
        }
    }
}

/// Limits how often an event is sent that may happen again and again.
#[derive(Debug, Default)]
struct Seldom {
    last: Mutex<Option<std::time::Instant>>,
}

impl Seldom {
    fn tell(&self, event: impl FnOnce()) {
        if self.is_time() {
            contained(event);
        }
    }

    /// Whether it is time to send it again. A caller that gets `true` has to.
    fn is_time(&self) -> bool {
        let now = stopwatch();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = last.is_none_or(|last| now.saturating_duration_since(last) >= SELDOM);
        if is_time {
            *last = Some(now);
        }
        is_time
    }
}
