//! How far an operation has come: what its lock guards. [`race`](super::race) tells how it gets from one stage to the
//! next.

use std::task::Waker;

use super::error::WatchError;
use super::give_back::GiveBack;
use super::outcome::Outcome;
use crate::platform::catch_panic::contained;
use crate::platform::sync::ShortLockGuard;
use crate::wheel::Key;

pub(super) struct State<F, T> {
    pub(super) stage: Stage<F, T>,
    /// Of the task that awaits the outcome.
    pub(super) waker: Option<Waker>,
    /// Of the entry in the wheel, until the operation ends.
    pub(super) entry: Option<Key>,
    /// The future has been polled, so its task will try the condition when it is left to it.
    pub(super) is_awaited: bool,
    /// The task is to try the condition when it polls next. Only while it is `Waiting`.
    pub(super) is_for_task: bool,
    /// The task is to try the condition a last time, because the deadline has come.
    pub(super) is_due: bool,
}

pub(super) enum Stage<F, T> {
    Waiting(F),
    Tried {
        /// A check came.
        again: bool,
        /// Somebody wants the operation to end.
        end: Option<End>,
        /// The future is gone, and wants the output back.
        give_back: Option<GiveBack<T>>,
    },
    /// With the outcome until somebody takes it.
    Ended(Option<Outcome<T>>),
}

/// Why an operation is to end.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The wheel has woken it.
    Due,
    Because(WatchError),
}

impl<F, T> Stage<F, T> {
    pub(super) const fn tried(end: Option<End>) -> Self {
        Self::Tried { again: false, end, give_back: None }
    }

    /// Leaves a request with the thread that tries the condition: to end the operation, or else to try again.
    pub(super) fn leave_word(&mut self, end: Option<End>, is_own: bool) {
        match self {
            Self::Tried { again, end: asked @ None, .. } if end.is_some() => {
                // What held before the deadline has not failed, though the thread may have looked before that.
                *again |= !matches!(end, Some(End::Because(WatchError::Cancelled)));
                *asked = end;
            }
            // A condition that checks its own key means the others. Once an end was asked for, checks come too late.
            Self::Tried { again, end: None, .. } if !is_own => *again = true,
            Self::Tried { .. } | Self::Waiting(_) | Self::Ended(_) => {}
        }
    }
}

/// Has the task try a waiting condition at its next poll.
pub(super) fn leave_to_task<F, T>(mut state: ShortLockGuard<'_, State<F, T>>) {
    state.is_for_task = true;
    wake_task(state);
}

/// Lets go of the lock, and wakes the task.
pub(super) fn wake_task<F, T>(mut state: ShortLockGuard<'_, State<F, T>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        contained(|| waker.wake());
    }
}
