//! How far an operation has come: what its lock guards. What leads from stage to stage is told in
//! [`operation`](super::operation).

use std::any::Any;
use std::task::Waker;

use super::error::WatchError;
use super::give_back::GiveBack;
use crate::platform::contain::contained;
use crate::platform::sync::ShortLockGuard;

/// Returns what the operation completes with, once it can.
pub(super) type Condition<T> = Box<dyn FnMut() -> Option<T> + Send>;

pub(super) enum Outcome<T> {
    Completed(T),
    Unmet(WatchError),
    /// The condition panicked.
    Panicked(Box<dyn Any + Send>),
}

pub(super) struct State<T> {
    pub(super) stage: Stage<T>,
    /// Of the task that awaits the outcome.
    pub(super) waker: Option<Waker>,
    /// That task is to try the condition when it polls next. Only while it is `Waiting`.
    pub(super) is_for_task: bool,
}

pub(super) enum Stage<T> {
    Waiting(Condition<T>),
    Tried {
        /// A check came.
        again: bool,
        /// Somebody wants it to end.
        end: Option<WatchError>,
        /// The future is gone, and wants the output back.
        give_back: Option<GiveBack<T>>,
    },
    /// With the outcome until that is taken.
    Ended(Option<Outcome<T>>),
}

impl<T> Stage<T> {
    pub(super) const fn tried(end: Option<WatchError>) -> Self {
        Self::Tried { again: false, end, give_back: None }
    }

    /// Tells whoever has the condition that the operation is to end, or else that it has to be tried again.
    pub(super) fn leave_word(&mut self, end: Option<WatchError>, is_own: bool) {
        match self {
            Self::Tried { again, end: asked @ None, .. } if end.is_some() => {
                // What came to hold before the deadline has not failed, though it may have been looked at before that.
                *again |= !matches!(end, Some(WatchError::Cancelled));
                *asked = end;
            }
            // A condition that checks its own key means the others. After an end was asked for, checks come too late.
            Self::Tried { again, end: None, .. } if !is_own => *again = true,
            Self::Tried { .. } | Self::Waiting(_) | Self::Ended(_) => {}
        }
    }
}

/// Has the task try a condition that waits, at its next poll.
pub(super) fn leave_to_task<T>(mut state: ShortLockGuard<'_, State<T>>) {
    state.is_for_task = true;
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        contained(|| waker.wake());
    }
}
