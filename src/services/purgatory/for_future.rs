//! What the future does with its operation.

use std::task::Waker;

use tokio::time::Instant;

use super::error::WatchError;
use super::give_back::GiveBack;
use super::operation::Operation;
use super::outcome::Outcome;
use super::stage::{End, Stage};

/// An operation as its future has it.
pub(super) trait Awaited<T>: Send + Sync {
    /// The outcome, if there is one; otherwise `waker` is woken when there is. Tries the condition if that was left to the
    /// task.
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>>;

    /// The future is dropped. What the operation has completed with is given back, or dropped if nobody wants it; by the
    /// thread that tries the condition, if one does and finds that it holds.
    fn withdraw(&self, give_back: Option<GiveBack<T>>);

    /// `None` once it has ended.
    fn deadline(&self) -> Option<Instant>;
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Operation<K, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        // The first poll surely needs one.
        let mut clone = is_first.then(|| waker.clone());
        let (is_due, is_for_task) = loop {
            let mut state = self.state.lock();
            if let Stage::Ended(outcome) = &mut state.stage {
                return outcome.take();
            }
            if clone.is_some() {
                std::mem::swap(&mut state.waker, &mut clone);
            } else if !state.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
                // A clone is made, and the one before dropped, without the lock.
                drop(state);
                clone = Some(waker.clone());
                continue;
            }
            state.is_awaited = true;
            break (state.is_due || self.deadline.has_come(), std::mem::take(&mut state.is_for_task));
        };
        if !is_due && !is_for_task {
            return None;
        }
        // Without it another thread is at it, and will wake the task.
        let condition = self.take_condition(is_due.then_some(End::Due))?;
        if is_due {
            self.forget_waker();
        }
        self.run(condition);
        self.take_outcome()
    }

    fn withdraw(&self, give_back: Option<GiveBack<T>>) {
        self.forget_waker();
        if self.end_untried(End::Because(WatchError::Cancelled)) {
            return;
        }
        // The wheel's entry may keep the operation for a while. What it has completed with goes now, and here.
        let give_back = Box::new(give_back.unwrap_or(GiveBack::dropped()));
        let mut state = self.state.lock();
        let outcome = match &mut state.stage {
            Stage::Ended(outcome) => outcome.take(),
            Stage::Tried { give_back: place, .. } => {
                *place = Some(give_back);
                return;
            }
            Stage::Waiting(_) => unreachable!("an end was asked for"),
        };
        drop(state);
        if let Some(outcome) = outcome {
            give_back.give(outcome);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let has_ended = matches!(self.state.lock().stage, Stage::Ended(_));
        (!has_ended).then(|| self.deadline.instant())
    }
}
