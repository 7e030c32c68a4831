//! Events: those of the crate `tracing` with the feature of that name, none without it.
//!
//! Subscribers are users' code. They are called under no lock, and their panics do not reach the caller.

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::Events;
#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::Events;

#[cfg(feature = "tracing")]
mod with_tracing {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use tracing::{debug, info, warn};

    use crate::error::Error;
    use crate::health::Unhandled;
    use crate::id::TimerId;
    use crate::runner::Stopped;

    const TARGET: &str = "timingwheel_durable";

    /// The shortest time from one report of a store that fails to the next, by std's clock.
    const SELDOM: Duration = Duration::from_secs(1);

    #[derive(Debug, Default)]
    pub(crate) struct Events {
        failed: Mutex<Option<Instant>>,
    }

    fn contained(event: impl FnOnce()) {
        // The panic hook has reported it. To drop what was thrown may panic once more.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(event)) {
            std::mem::forget(panic);
        }
    }

    impl Events {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn begins(&self, wheel: &str, epoch: u64) {
            contained(|| debug!(target: TARGET, wheel, epoch, "durable timers begin"));
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
            contained(|| warn!(target: TARGET, %error, errors, "a store of timers fails"));
        }

        pub(crate) fn buried(&self, id: TimerId, kind: &str, key: Option<&str>, attempt: u32, reason: &str) {
            contained(|| warn!(target: TARGET, %id, kind, key, attempt, reason, "a timer is buried"));
        }

        /// A timer was saved that no handler here takes.
        pub(crate) fn saved_unhandled(&self, kind: &str) {
            contained(|| warn!(target: TARGET, kind, "a timer is saved whose kind has no handler here"));
        }

        pub(crate) fn unhandled(&self, unhandled: &Unhandled) {
            let Unhandled { kind, overdue } = unhandled;
            contained(
                || warn!(target: TARGET, kind, ?overdue, "a timer is overdue whose kind has no handler here"),
            );
        }

        pub(crate) fn planned_anew(&self, id: TimerId) {
            contained(
                || warn!(target: TARGET, %id, "a series is planned anew, as its rule would not plan what was stored"),
            );
        }

        pub(crate) fn retried(&self, id: TimerId, attempt: u32, error: &str) {
            contained(
                || debug!(target: TARGET, %id, attempt, error, "an attempt has failed and is made again"),
            );
        }

        pub(crate) fn clock_was_set(&self) {
            contained(|| info!(target: TARGET, "a clock was set, and timers are armed anew"));
        }

        pub(crate) fn lost(&self, epoch: u64) {
            contained(|| warn!(target: TARGET, epoch, "another owner has the store of timers now"));
        }

        /// Others have the timers of this instance, and it is none any more.
        pub(crate) fn lease_lost(&self, epoch: u64) {
            contained(
                || warn!(target: TARGET, epoch, "the lease is over, and other instances have the timers"),
            );
        }

        pub(crate) fn joined_again(&self, before: u64, epoch: u64) {
            contained(|| warn!(target: TARGET, before, epoch, "the instance joined again"));
        }

        pub(crate) fn stopped(&self, stopped: &Stopped) {
            let Stopped { finished, given_back, aborted, left_running, unsettled } = *stopped;
            contained(|| {
                debug!(
                    target: TARGET,
                    finished, given_back, aborted, left_running, unsettled, "durable timers have stopped"
                );
            });
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    use crate::error::Error;
    use crate::health::Unhandled;
    use crate::id::TimerId;
    use crate::runner::Stopped;

    #[derive(Debug)]
    pub(crate) struct Events;

    impl Events {
        pub(crate) const fn new() -> Self {
            Self
        }

        pub(crate) fn begins(&self, _wheel: &str, _epoch: u64) {}

        pub(crate) fn failed(&self, _error: &Error, _errors: u64) {}

        pub(crate) fn buried(
            &self,
            _id: TimerId,
            _kind: &str,
            _key: Option<&str>,
            _attempt: u32,
            _reason: &str,
        ) {
        }

        pub(crate) fn saved_unhandled(&self, _kind: &str) {}

        pub(crate) fn unhandled(&self, _unhandled: &Unhandled) {}

        pub(crate) fn planned_anew(&self, _id: TimerId) {}

        pub(crate) fn retried(&self, _id: TimerId, _attempt: u32, _error: &str) {}

        pub(crate) fn clock_was_set(&self) {}

        pub(crate) fn lost(&self, _epoch: u64) {}

        pub(crate) fn lease_lost(&self, _epoch: u64) {}

        pub(crate) fn joined_again(&self, _before: u64, _epoch: u64) {}

        pub(crate) fn stopped(&self, _stopped: &Stopped) {}
    }
}
