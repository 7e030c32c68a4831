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
    pub(super) entry: Key,
    /// The future has been polled, so its task will try the condition when it is left to it.
    pub(super) is_awaited: bool,
    /// The task is to try the condition when it polls next. Only while it is `Waiting`.
    pub(super) is_for_task: bool,
    /// The task is to try the condition a last time, because the deadline has come.
    pub(super) is_due: bool,
    /// A check came while the condition was tried.
    pub(super) again: bool,
}

/// Before there is one.
pub(super) const NO_ENTRY: Key = Key::vacancy(0);

pub(super) enum Stage<F, T> {
    Waiting(F),
    Tried {
        /// Somebody wants the operation to end.
        end: Option<End>,
        /// The future is gone, and wants the output back. Boxed, because that is rare.
        give_back: Option<Box<GiveBack<T>>>,
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
    #[inline]
    pub(super) const fn tried(end: Option<End>) -> Self {
        Self::Tried { end, give_back: None }
    }
}

impl<F, T> State<F, T> {
    /// Leaves a request with the thread that tries the condition: to end the operation, or else to try again.
    pub(super) fn leave_word(&mut self, end: Option<End>, is_own: bool) {
        match &mut self.stage {
            Stage::Tried { end: asked @ None, .. } if end.is_some() => {
                // What held before the deadline has not failed, though the thread may have looked before that.
                self.again |= !matches!(end, Some(End::Because(WatchError::Cancelled)));
                *asked = end;
            }
            // A condition that checks its own key means the others. Once an end was asked for, checks come too late.
            Stage::Tried { end: None, .. } if !is_own => self.again = true,
            Stage::Tried { .. } | Stage::Waiting(_) | Stage::Ended(_) => {}
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
