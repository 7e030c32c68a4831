//! Live timers (begun or about to), notices that wait for them, and timers that somebody else holds for a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Runner;
use super::settle::End;
use crate::handler::{Handler, Interrupt, Signal};
use crate::id::TimerId;
use crate::store::{Ended, Near, Series, Stored};

/// ```text
///  Beginning -> Running -> Ending
///      |                     ^
///      +---- not called -----+
/// ```
pub(super) enum Live {
    /// The store is asked. An earlier call that failed may have begun it.
    Beginning { may_have_begun: bool },
    /// Its handler has been called, or is about to be.
    Running { attempt: Attempt, task: AbortHandle, signal: Signal },
    /// Its end is on its way to the store.
    Ending(Ending),
}

/// The end of an attempt.
pub(super) struct Ending {
    pub(super) attempt: Attempt,
    pub(super) end: End,
    pub(super) was_called: bool,
    /// The store refused it alone, when so many calls had succeeded.
    pub(super) refused_at: Option<u64>,
}

/// An attempt.
pub(super) struct Attempt {
    /// The timer as its end is decided by it. The handler has its payload.
    pub(super) stored: Box<Stored>,
    /// The owner that began it. This instance may have joined again since.
    pub(super) epoch: u64,
    /// The series as it stood before this run, if this run has changed it.
    pub(super) series_before: Option<Series>,
    /// The series has been saved meanwhile with a rule that cannot be read here: the next run is planned by the rule before.
    pub(super) unreadable: Option<Series>,
    pub(super) handler: Arc<Handler>,
}

impl Attempt {
    pub(super) fn id(&self) -> TimerId {
        self.stored.timer.id()
    }

    /// Which this is among the attempts that the handler has answered. Those whose process ended are not among them.
    pub(super) fn number(&self) -> u32 {
        self.stored.attempts.saturating_sub(self.stored.crashes)
    }
}

/// How long after the answer the store is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Timers that somebody else holds in the store for a moment: the store is asked again after a second.
#[derive(Default)]
pub(super) struct PutOff {
    /// When the store is asked again, at the latest.
    pub(super) at: Option<Instant>,
    /// Live timers that a failed call may have begun.
    begins: Vec<Near>,
    ends: Vec<Ended>,
}

impl PutOff {
    /// An end was not stored, because somebody holds its timer.
    pub(super) fn end(&mut self, ended: Ended) {
        self.ends.push(ended);
        self.at.get_or_insert_with(|| Instant::now() + AGAIN);
    }
}

impl Runner {
    /// Tells all handlers that run.
    pub(super) fn interrupt_all(&self, why: Interrupt) {
        for live in self.live.values() {
            if let Live::Running { signal, .. } = live {
                signal.interrupt(why);
            }
        }
    }

    /// Whether a timer was cancelled while the answer to its begin was on its way. Told once.
    pub(super) fn was_cancelled_early(&mut self, id: TimerId) -> bool {
        !self.cancelled_early.is_empty() && self.cancelled_early.remove(&id)
    }

    /// A timer was cancelled after it had begun.
    pub(super) fn cancelled(&mut self, id: TimerId) {
        match self.live.get(&id) {
            Some(Live::Running { signal, .. }) => signal.interrupt(Interrupt::Cancelled),
            // The store has begun it, and its answer is on its way.
            Some(Live::Beginning { .. }) => drop(self.cancelled_early.insert(id)),
            Some(Live::Ending(_)) | None => {}
        }
    }

    /// A timer was not begun, because somebody holds it.
    pub(super) fn put_off_begin(&mut self, near: Near) {
        let may_begin = self.may_begin();
        match self.live.get_mut(&near.id()) {
            // This owner may hold it itself, by the call that failed. A load would leave out a timer that this call began.
            Some(Live::Beginning { may_have_begun: true }) if may_begin => {
                self.put_off.begins.push(near);
                self.put_off.at.get_or_insert_with(|| Instant::now() + AGAIN);
            }
            // It takes no handler's place while it waits.
            _ => {
                self.has_not_begun(near.id());
                if may_begin {
                    self.arm_at(near, Instant::now() + AGAIN);
                }
            }
        }
    }

    /// Asks again, if it is time.
    pub(super) fn take_up(&mut self) {
        if self.put_off.at.is_some_and(|at| at <= Instant::now()) {
            let PutOff { at: _, begins, ends } = std::mem::take(&mut self.put_off);
            self.again.extend(begins);
            self.ends.extend(ends);
        }
    }

    /// Forgets timers that a failed call may have begun. The next owner finds them.
    pub(super) fn forget_what_may_have_begun(&mut self) {
        let put_off = std::mem::take(&mut self.put_off.begins);
        for near in std::mem::take(&mut self.again).into_iter().chain(put_off) {
            self.has_not_begun(near.id());
        }
    }
}
