//! Events for the crate `tracing`.
//!
//! Subscribers are users' code. They are called under no lock, and their panics do not reach the caller.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::error::{contained, with_causes};
use crate::health::Unhandled;
use crate::id::TimerId;
use crate::runner::Stopped;

/// The shortest time from one report of a store that fails to the next, by std's clock.
const SELDOM: Duration = Duration::from_secs(1);

macro_rules! event {
    ($level:ident, $($told:tt)*) => {
        contained(|| tracing::$level!(target: "timingwheel_durable", $($told)*))
    };
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    failed: Mutex<Option<Instant>>,
}

impl Events {
    pub(crate) fn begins(&self, wheel: &str, epoch: u64) {
        event!(debug, wheel, epoch, "durable timers begin");
    }

    /// A call of the store has failed. `errors` counts all of them.
    pub(crate) fn failed(&self, error: &Error, errors: u64) {
        let now = Instant::now();
        {
            let mut last = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.saturating_duration_since(last) < SELDOM) {
                return;
            }
            *last = Some(now);
        }
        event!(warn, error = with_causes(error), errors, "a store of timers fails");
    }

    pub(crate) fn buried(&self, id: TimerId, kind: &str, key: Option<&str>, attempt: u32, reason: &str) {
        event!(warn, %id, kind, key, attempt, reason, "a timer is buried");
    }

    /// A timer was saved whose kind has no handler here.
    pub(crate) fn saved_unhandled(&self, kind: &str) {
        event!(warn, kind, "a timer is saved whose kind has no handler here");
    }

    pub(crate) fn unhandled(&self, unhandled: &Unhandled) {
        let Unhandled { kind, rule, overdue } = unhandled;
        match rule {
            Some(why) => {
                event!(warn, kind, why, ?overdue, "a timer is overdue whose rule cannot be read here");
            }
            None => event!(warn, kind, ?overdue, "a timer is overdue whose kind has no handler here"),
        }
    }

    pub(crate) fn removed(&self, id: TimerId) {
        event!(info, %id, "a timer that was cancelled while it ran is removed, and not attempted again");
    }

    pub(crate) fn planned_anew(&self, id: TimerId) {
        event!(warn, %id, "a series is planned anew, as its rule would not plan what was stored");
    }

    pub(crate) fn retried(&self, id: TimerId, attempt: u32, error: &str) {
        event!(debug, %id, attempt, error, "an attempt has failed and is made again");
    }

    /// Its handler had ended it in a transaction of its own.
    pub(crate) fn failed_after_finish(&self, id: TimerId, attempt: u32, error: &str) {
        event!(warn, %id, attempt, error, "a timer is done by `finish_in`, and its handler failed afterwards");
    }

    pub(crate) fn clock_was_set(&self) {
        event!(info, "a clock was set, and timers are armed anew");
    }

    pub(crate) fn lost(&self, epoch: u64) {
        event!(warn, epoch, "another instance has taken over the store of timers");
    }

    /// Other instances have the timers of this one.
    pub(crate) fn lease_lost(&self, epoch: u64) {
        event!(warn, epoch, "the lease is over, and other instances have the timers");
    }

    pub(crate) fn joined_again(&self, before: u64, epoch: u64) {
        event!(warn, before, epoch, "the instance joined again");
    }

    pub(crate) fn stopped(&self, stopped: &Stopped) {
        let Stopped { finished, given_back, aborted, left_running, unsettled } = *stopped;
        event!(debug, finished, given_back, aborted, left_running, unsettled, "durable timers have stopped");
    }
}
