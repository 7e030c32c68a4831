//! With the feature `tracing`. Subscribers are a user's code: they are called when no lock is held, and a panic of theirs
//! does not reach whoever tells.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::clock::stopwatch;
use crate::contain::contained;

const TARGET: &str = "timingwheel";

/// How often what may happen very often is told, by std's clock.
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Events {
    refused: Seldom,
    stalled: Seldom,
    waker_panicked: Seldom,
    has_ended: AtomicBool,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            refused: Seldom::default(),
            stalled: Seldom::default(),
            waker_panicked: Seldom::default(),
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

    /// So many were, with this one.
    pub(crate) fn refused(&self, wheel: &str, refused: u64) {
        self.refused
            .tell(|| warn!(target: TARGET, wheel, refused, "a timing wheel is full and refuses a timer"));
    }

    pub(crate) fn stalled(&self, wheel: &str, stalls: u64) {
        self.stalled.tell(|| info!(target: TARGET, wheel, stalls, "a timing wheel's driver was woken late"));
    }

    pub(crate) fn waker_panicked(&self, wheel: &str, panicked: u64) {
        self.waker_panicked.tell(
            || error!(target: TARGET, wheel, panicked, "a waker panicked as a timing wheel's driver woke it"),
        );
    }

    /// Told once, by whoever ends it first: with how many timers were pending.
    pub(crate) fn ended(&self, wheel: &str, pending: usize) {
        if !self.has_ended.swap(true, Ordering::Relaxed) {
            contained(|| debug!(target: TARGET, wheel, pending, "a timing wheel has ended"));
        }
    }
}

/// What is told at most once in a while, for when it happens again and again.
#[derive(Debug, Default)]
struct Seldom {
    last: Mutex<Option<std::time::Instant>>,
}

impl Seldom {
    fn tell(&self, event: impl FnOnce()) {
        let now = stopwatch();
        {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.saturating_duration_since(last) < SELDOM) {
                return;
            }
            *last = Some(now);
        }
        contained(event);
    }
}
