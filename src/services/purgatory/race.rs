//! The race for an operation: a check completes it, a cancel or the deadline ends it, and one of them wins.
//!
//! A condition is a user's code and runs without any lock. Whoever tries it takes it out of the operation, and alone
//! decides how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | `Waiting` | here | tried by a check or at the deadline, or cancelled: `Tried`, by whom takes the condition |
//! | `Tried` | with one thread | holds: `Ended`, completed. Panics: `Ended`. Does not hold: tried again if a check came meanwhile, or after [`RETRIES`] `Waiting`, for the task; else `Ended` if an end was asked for; else `Waiting` |
//! | `Ended` | dropped | nothing: the outcome is taken by the future, or given back |
//!
//! Nobody waits for a thread that tries. A check leaves a request to try the condition once more, as what the
//! thread saw may be out of date; who wants to end the operation leaves a request for that. So checks of any keys, from any
//! threads and from within conditions, cannot lock each other out, no check is lost, and what a condition returns is
//! never thrown away for an end that came in between.
//!
//! The future's task is woken after the outcome is set, when a check leaves the condition to it, and at the deadline.
//! [`expire`](super::expire) has the last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::Wake;

use super::deadline::Arming;
use super::error::WatchError;
use super::listed::Listed;
use super::operation::Operation;
use super::outcome::{Outcome, Panic};
use super::stage::{End, Stage, State, leave_to_task};
use super::this_thread_tries::Trying;
use crate::platform::catch_panic::contained;
use crate::platform::sync::ShortLockGuard;
use crate::wheel::Key;

/// How often in a row whoever tries a condition tries it again because checks came meanwhile. More than a few others can
/// only be at it if they check all the time.
const RETRIES: usize = if cfg!(all(test, loom)) { 1 } else { 16 };

/// What a try led to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Waits,
    Completed,
    /// In another way.
    Ended,
}

impl<K, F: FnMut() -> Option<T>, T> Operation<K, F, T> {
    /// Adds the operation, whose condition the caller has, to its lists and to the wheel, and tries it once more.
    #[inline]
    pub(super) fn start(self: &Arc<Self>, condition: F, arming: Arming) -> Tried
    where
        Self: Listed<K> + Wake + 'static,
    {
        let mut entry = None;
        let end = if self.lists.add(self) {
            match self.deadline.arm(arming, self.clone().into()) {
                Ok(armed) => {
                    entry = armed;
                    armed.is_none().then_some(End::Due)
                }
                Err(error) => Some(End::Because(WatchError::CouldNotRun(error))),
            }
        } else {
            Some(End::Because(WatchError::Cancelled))
        };
        if let Some(end) = end {
            // The condition is with this thread, so the operation ends when that does not hold.
            self.state.lock().leave_word(Some(end), true);
        }
        self.run_with(condition, entry)
    }

    /// Tries the condition, which the caller has taken, until no check has come meanwhile.
    ///
    /// Where checks come again and again, the caller is not kept: the condition is left to its task then.
    #[inline]
    pub(super) fn run(&self, condition: F) -> Tried {
        self.run_with(condition, None)
    }

    /// As [`run`](Self::run), for an operation whose entry its lock does not know yet.
    #[inline]
    fn run_with(&self, mut condition: F, entry: Option<Key>) -> Tried {
        let mut retries = 0;
        loop {
            let tried = self.try_once(&mut condition);
            let mut state = self.state.lock();
            if let Some(entry) = entry {
                state.entry = entry;
            }
            let Stage::Tried { end, .. } = &state.stage else {
                unreachable!("it goes on only by who has its condition");
            };
            let end = *end;
            let outcome = match tried {
                Ok(Some(output)) => Outcome::Completed(output),
                Ok(None) if state.again && (retries < RETRIES || end.is_some()) => {
                    state.again = false;
                    retries += 1;
                    continue;
                }
                Ok(None) if state.again => {
                    state.stage = Stage::Waiting(condition);
                    leave_to_task(state);
                    return Tried::Waits;
                }
                Ok(None) => match end {
                    Some(end) => Outcome::Unmet(self.why(end)),
                    None => {
                        state.stage = Stage::Waiting(condition);
                        return Tried::Waits;
                    }
                },
                Err(panic) => Outcome::Panicked(panic),
            };
            let tried =
                if matches!(outcome, Outcome::Completed(_)) { Tried::Completed } else { Tried::Ended };
            self.finish(state, outcome);
            contained(move || drop(condition));
            return tried;
        }
    }

    #[inline]
    fn try_once(&self, condition: &mut F) -> Result<Option<T>, Panic> {
        let _trying = Trying::begin(ptr::from_ref(self).addr());
        // It is not called again after a panic.
        catch_unwind(AssertUnwindSafe(condition)).map_err(Box::new)
    }

    /// Takes the condition to try it. If a thread has it, leaves a request there: to end, or else to try again.
    #[inline]
    pub(super) fn take_condition(&self, end: Option<End>) -> Option<F> {
        self.take_condition_of(&mut self.state.lock(), end)
    }

    #[inline]
    fn take_condition_of(&self, state: &mut State<F, T>, end: Option<End>) -> Option<F> {
        if !matches!(state.stage, Stage::Waiting(_)) {
            state.leave_word(end, self.is_tried_here());
            return None;
        }
        (state.is_for_task, state.again) = (false, false);
        match std::mem::replace(&mut state.stage, Stage::tried(end)) {
            Stage::Waiting(condition) => Some(condition),
            Stage::Tried { .. } | Stage::Ended(_) => None,
        }
    }

    fn why(&self, end: End) -> WatchError {
        match end {
            End::Due => self.deadline.why(),
            End::Because(why) => why,
        }
    }

    /// Whether this thread is trying it, so that the condition itself calls this.
    pub(super) fn is_tried_here(&self) -> bool {
        Trying::is(ptr::from_ref(self).addr())
    }

    /// For who has the condition: sets the outcome, and tells the task.
    // Inlined, because the outcome is written a moment before: to read it as a whole the processor would have to wait.
    #[inline(always)]
    fn finish(&self, mut state: ShortLockGuard<'_, State<F, T>>, outcome: Outcome<T>) {
        let give_back = match &mut state.stage {
            Stage::Tried { give_back, .. } => give_back.take(),
            Stage::Waiting(_) | Stage::Ended(_) => None,
        };
        let unclaimed = match give_back {
            None => {
                state.stage = Stage::Ended(Some(outcome));
                None
            }
            Some(give_back) => {
                state.stage = Stage::Ended(None);
                Some((give_back, outcome))
            }
        };
        let (waker, entry) = (state.waker.take(), state.entry);
        drop(state);
        self.lists.remove(&self.places);
        if !entry.is_vacancy() {
            self.deadline.disarm(entry);
        }
        if let Some(waker) = waker {
            contained(|| waker.wake());
        }
        if let Some((give_back, outcome)) = unclaimed {
            give_back.give(outcome);
        }
    }

    /// Tries it a last time, in another task than the one that awaits it.
    pub(super) fn try_last(&self) {
        if let Some(condition) = self.take_condition(Some(End::Due)) {
            self.run(condition);
        }
    }

    pub(super) fn end_untried(&self, end: End) -> bool {
        let mut state = self.state.lock();
        let Some(condition) = self.take_condition_of(&mut state, Some(end)) else { return false };
        self.finish(state, Outcome::Unmet(self.why(end)));
        contained(move || drop(condition));
        true
    }
}
