//! How handlers tell the runner how they have ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use super::Command;
use crate::handler::Answer;
use crate::id::TimerId;

/// How a handler ended.
pub(crate) enum Outcome {
    Answered(Result<Answer, String>),
    Panicked(String),
    /// The payload was not what the handler takes.
    Unreadable(String),
    /// It was not called: others may have its timer.
    TooLate,
    /// It was dropped before it had ended.
    Dropped,
}

/// Outcomes that the runner has not taken yet. Once it is woken, it takes all that are there by then.
pub(super) struct Outcomes {
    told: Mutex<Told>,
    runner: UnboundedSender<Command>,
    /// A stop is at its limit: what is not called yet is not called any more.
    is_aborting: AtomicBool,
}

#[derive(Default)]
struct Told {
    outcomes: Vec<(TimerId, Outcome)>,
    /// The runner has been sent a message, and will take them.
    is_awaited: bool,
}

impl Outcomes {
    pub(super) fn new(runner: UnboundedSender<Command>) -> Self {
        Self { told: Mutex::default(), runner, is_aborting: AtomicBool::new(false) }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the runner takes what was told. Whoever calls it returns to the runtime soon: a task that is woken
    /// may have to wait for the thread that has woken it.
    pub(super) fn wake(&self) {
        let needs_message = {
            let mut told = self.told();
            !told.outcomes.is_empty() && !std::mem::replace(&mut told.is_awaited, true)
        };
        if needs_message {
            self.send(Command::Ended);
        }
    }

    /// The runner may have gone, as one does that has stopped.
    pub(super) fn send(&self, command: Command) {
        drop(self.runner.send(command));
    }

    /// What was told since it was asked last. `empty` is what is filled next.
    pub(super) fn take(&self, empty: Vec<(TimerId, Outcome)>) -> Vec<(TimerId, Outcome)> {
        debug_assert!(empty.is_empty());
        let mut told = self.told();
        told.is_awaited = false;
        std::mem::replace(&mut told.outcomes, empty)
    }

    pub(super) fn abort(&self) {
        self.is_aborting.store(true, Ordering::Release);
    }

    pub(super) fn is_aborting(&self) -> bool {
        self.is_aborting.load(Ordering::Acquire)
    }
}

/// Tells how a handler ended, also if its task is dropped.
pub(super) struct Teller {
    id: TimerId,
    outcomes: Arc<Outcomes>,
    has_told: bool,
}

impl Teller {
    pub(super) fn new(id: TimerId, outcomes: Arc<Outcomes>) -> Self {
        Self { id, outcomes, has_told: false }
    }

    /// The runner hears of it when it is woken.
    pub(super) fn tell(&mut self, outcome: Outcome) {
        self.has_told = true;
        self.outcomes.told().outcomes.push((self.id, outcome));
    }

    pub(super) fn tell_now(&mut self, outcome: Outcome) {
        self.tell(outcome);
        self.outcomes.wake();
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.has_told {
            self.tell_now(Outcome::Dropped);
        }
    }
}
