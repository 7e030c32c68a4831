//! Live timers (begun or about to), notices that wait for them, and timers that somebody else holds for a moment.

use std::sync::Arc;
use std::time::Duration;

use timingwheel::time::delay_queue;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::settle::End;
use super::{Runner, TakeBack, TookBack};
use crate::handler::Handler;
use crate::id::TimerId;
use crate::store::{Ended, Near, Series, Stored};

/// ```text
///  Beginning -> Waiting -> Running -> Ending
///      |           |                    ^
///      +-----------+------ taken back --+
/// ```
pub(super) enum Live {
    /// The store is asked. Callers that want the timer back wait. An earlier call that failed may have begun it.
    Beginning { takes: Vec<TakeBack>, may_have_begun: bool },
    /// It has begun, ahead of its time.
    Waiting { attempt: Attempt, key: delay_queue::Key },
    /// Its handler has been called, or is about to be. It cannot be taken back any more.
    Running { attempt: Attempt, task: AbortHandle },
    /// Its end is on its way to the store.
    Ending(Ending),
}

/// The end of an attempt. A caller may have taken the timer back, unless the handler was called. That caller waits for the store,
/// and so do others who wanted to take it back.
pub(super) struct Ending {
    pub(super) attempt: Attempt,
    pub(super) end: End,
    pub(super) was_called: bool,
    /// The first of the callers has taken it back.
    pub(super) was_taken: bool,
    pub(super) takes: Vec<TakeBack>,
}

/// An attempt.
pub(super) struct Attempt {
    /// The timer as its end is decided by it. The handler has its payload.
    pub(super) stored: Box<Stored>,
    /// The owner that began it. This instance may have joined again since.
    pub(super) epoch: u64,
    /// The series as it stood before this run, if this run has changed it.
    pub(super) series_before: Option<Series>,
    pub(super) handler: Arc<Handler>,
}

impl Attempt {
    pub(super) fn id(&self) -> TimerId {
        self.stored.timer.id()
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
    /// When there is something to ask again.
    /// An end was not stored, because somebody holds its timer.
    pub(super) fn end(&mut self, ended: Ended) {
        self.ends.push(ended);
        self.at.get_or_insert_with(|| Instant::now() + AGAIN);
    }
}

impl Runner {
    /// A timer was not begun, because somebody holds it.
    pub(super) fn put_off_begin(&mut self, near: Near) {
        let may_begin = self.may_begin();
        match self.live.get_mut(&near.id()) {
            // This owner may hold it itself, by the call that failed. A load would leave out a timer that this call began.
            Some(Live::Beginning { takes, may_have_begun: true }) if may_begin => {
                takes.drain(..).for_each(|take| take.tell(TookBack::AskAgain));
                self.put_off.begins.push(near);
                self.put_off.at.get_or_insert_with(|| Instant::now() + AGAIN);
            }
            // It takes no handler's place while it waits.
            _ => {
                self.reply(near.id(), TookBack::AskAgain);
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
            self.reply(near.id(), TookBack::AskAgain);
        }
    }
}
