//! What the runner is told, by handles and by handlers.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Runner, Stopped};
use crate::handler::Answer;
use crate::id::TimerId;
use crate::store::{End, Near};

pub(crate) enum Command {
    /// These are stored.
    Saved(Vec<Near>),
    /// This was cancelled.
    Removed(Near),
    /// These are near, says a scheduler outside.
    Near(Vec<Near>),
    /// Something may be stored that nobody could tell of: the call that would know has failed.
    LookAnew,
    /// A timer that has begun is to be taken back, if its handler has not been called.
    TakeBack(TimerId, TakeBack),
    /// A handler has ended.
    Ended(TimerId, Outcome),
    /// Nothing more is to begin. What runs is waited for, up to a limit.
    Stop(Option<(Duration, oneshot::Sender<Stopped>)>),
}

/// How a handler ended.
pub(crate) enum Outcome {
    Answered(Result<Answer, String>),
    Panicked(String),
    /// The payload was not what the handler takes.
    Unreadable(String),
    /// It was not called: others may have its timer, or nothing is called any more.
    TooLate,
    /// It was dropped before it had ended.
    Dropped,
}

/// Who wants a timer back, and what for.
pub(crate) struct TakeBack {
    pub(crate) end: End,
    pub(crate) reply: oneshot::Sender<TookBack>,
}

impl TakeBack {
    /// Who does not wait for the answer any more needs none.
    pub(super) fn tell(self, told: TookBack) {
        let _ = self.reply.send(told);
    }
}

/// Whether a timer was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TookBack {
    /// Yes, and the store has it.
    Yes,
    /// Its handler has been called.
    Runs,
    /// Something else has happened to it: the store knows.
    AskAgain,
    /// Nothing is known of it here. If the store has that very attempt still, its handler was called.
    Unknown,
}

impl Runner {
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Saved(nears) => {
                nears.into_iter().for_each(|near| self.saved(near));
                self.shrink();
            }
            Command::Removed(near) => {
                self.window.removed(near);
                self.disarm(near);
                if let Some(outside) = &mut self.outside {
                    outside.take_back(vec![near]);
                }
            }
            Command::Near(nears) => {
                nears.into_iter().for_each(|near| self.is_near(near));
                self.shrink();
            }
            Command::LookAnew => self.looks_anew = true,
            Command::TakeBack(id, take) => self.take_back(id, take),
            Command::Ended(id, outcome) => self.ended(id, outcome),
            Command::Stop(Some((limit, reply))) => self.stop(Some((limit, reply))),
            Command::Stop(None) => self.stop(None),
        }
    }

    /// This is stored, by whomever.
    pub(super) fn saved(&mut self, near: Near) {
        // Another instance's is found by that.
        if !self.store.is_mine(self.owner, near) {
            return;
        }
        let is_near = self.window.saved(near);
        if !self.may_begin() {
            return;
        }
        if is_near {
            self.arm(near);
        } else if let Some(outside) = &mut self.outside {
            outside.is_far(near);
        }
    }

    /// Wherever the window ends, and whatever became of it: `begin` tells.
    fn is_near(&mut self, near: Near) {
        if !self.may_begin() {
            return;
        }
        if near.due_ms <= self.horizon() {
            self.arm(near);
        } else if let Some(outside) = &mut self.outside {
            outside.is_far(near);
        }
    }
}
