//! An operation: its condition, who tries it, and how it ended.
//!
//! A condition is a user's and runs without any lock. Whoever tries it takes it out of the operation, and alone decides
//! how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | `Waiting` | here | tried by a check or at the deadline, or cancelled: `Tried`, by whom takes the condition |
//! | `Tried` | with one thread | holds: `Ended`, completed. Panics: `Ended`. Does not hold: tried again if a check came meanwhile, or after [`RETRIES`] `Waiting`, for the task; else `Ended` if an end was asked for; else `Waiting` |
//! | `Ended` | dropped | nothing: the outcome is taken by the future, or given back |
//!
//! Nobody waits for a thread that tries. A check leaves word that the condition has to be tried once more, as what it
//! saw may be out of date; who wants to end the operation leaves word of that. So checks of any keys, from any threads
//! and from within conditions, cannot lock each other out, no check is lost, and what a condition returns is never
//! thrown away for an end that came in between.
//!
//! The future's task is woken after the outcome is set, and when a check leaves the condition to it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::task::Waker;

use super::error::WatchError;
use super::give_back::GiveBack;
use super::lists::{Lists, Place};
use super::stage::{Condition, Outcome, Stage, State, leave_to_task};
use super::trying::Trying;
use crate::platform::contain::contained;
use crate::platform::sync::{ShortLock, ShortLockGuard};

/// How often in a row whoever tries a condition tries it again because checks came meanwhile. More than a few others can
/// only be at it if they check all the time.
const RETRIES: usize = if cfg!(all(test, loom)) { 1 } else { 16 };

/// An operation in a list, whatever it completes with.
pub(super) trait Watched<K>: Send + Sync {
    fn places(&self) -> &[Place<K>];

    /// Tries the condition, or has it tried by whoever is at it, and returns whether this completed the operation.
    fn check(&self, lists: &Lists<K>) -> bool;

    /// Has the condition tried by the task that awaits the operation, or by whoever is at it. Returns whether it had
    /// not ended.
    fn check_in_task(&self) -> bool;

    /// Ends the operation without trying it, and returns whether this did. If a thread is at it, it ends when that
    /// finds that the condition does not hold.
    fn end(&self, lists: &Lists<K>, why: WatchError) -> bool;
}

pub(super) struct Operation<K, T> {
    places: Box<[Place<K>]>,
    state: ShortLock<State<T>>,
}

impl<K, T> Operation<K, T> {
    /// The caller has its condition, as in `Tried`.
    pub(super) fn new(places: Box<[Place<K>]>) -> Self {
        let state = State { stage: Stage::tried(None), waker: None, is_for_task: false };
        Self { places, state: ShortLock::new(state) }
    }

    /// Tries the condition, which the caller has taken, until no check has come meanwhile. Returns whether it holds.
    ///
    /// Where checks come again and again, the caller is not kept: the condition is left to its task then.
    pub(super) fn run(&self, mut condition: Condition<T>, lists: &Lists<K>) -> bool {
        let mut retries = 0;
        loop {
            let tried = self.try_once(&mut condition);
            let mut state = self.state.lock();
            let Stage::Tried { again, end, .. } = &mut state.stage else {
                unreachable!("it goes on only by who has its condition");
            };
            let outcome = match tried {
                Ok(Some(output)) => Outcome::Completed(output),
                Ok(None) if *again && (retries < RETRIES || end.is_some()) => {
                    *again = false;
                    retries += 1;
                    continue;
                }
                Ok(None) if *again => {
                    state.stage = Stage::Waiting(condition);
                    leave_to_task(state);
                    return false;
                }
                Ok(None) => match *end {
                    Some(why) => Outcome::Unmet(why),
                    None => {
                        state.stage = Stage::Waiting(condition);
                        return false;
                    }
                },
                Err(panic) => Outcome::Panicked(panic),
            };
            let is_completed = matches!(outcome, Outcome::Completed(_));
            self.finish(state, outcome, lists);
            contained(move || drop(condition));
            return is_completed;
        }
    }

    fn try_once(&self, condition: &mut Condition<T>) -> Result<Option<T>, Box<dyn Any + Send>> {
        let _trying = Trying::begin(ptr::from_ref(self).addr());
        // It is not called again after a panic.
        catch_unwind(AssertUnwindSafe(condition))
    }

    /// Takes the condition to try it. If that is with a thread, leaves word there: to end, or else to try again.
    fn take_condition(&self, end: Option<WatchError>) -> Option<Condition<T>> {
        let is_own = self.is_tried_here();
        let mut state = self.state.lock();
        if !matches!(state.stage, Stage::Waiting(_)) {
            state.stage.leave_word(end, is_own);
            return None;
        }
        state.is_for_task = false;
        match std::mem::replace(&mut state.stage, Stage::tried(end)) {
            Stage::Waiting(condition) => Some(condition),
            Stage::Tried { .. } | Stage::Ended(_) => None,
        }
    }

    /// Whether it is tried by this thread, and calls this.
    fn is_tried_here(&self) -> bool {
        Trying::is(ptr::from_ref(self).addr())
    }

    /// For who has the condition: sets the outcome, and tells the task.
    fn finish(&self, mut state: ShortLockGuard<'_, State<T>>, outcome: Outcome<T>, lists: &Lists<K>) {
        let mut outcome = Some(outcome);
        let unclaimed = match &mut state.stage {
            Stage::Tried { give_back: give_back @ Some(_), .. } => give_back.take().zip(outcome.take()),
            _ => None,
        };
        state.stage = Stage::Ended(outcome);
        let waker = state.waker.take();
        drop(state);
        lists.remove(&self.places);
        if let Some(waker) = waker {
            contained(|| waker.wake());
        }
        if let Some((give_back, outcome)) = unclaimed {
            give_back.give(outcome);
        }
    }

    /// The outcome, if there is one; otherwise `waker` is woken when there is. Tries the condition if that was left to
    /// the task.
    pub(super) fn poll(&self, waker: &Waker, lists: &Lists<K>) -> Option<Outcome<T>> {
        let mut clone = None;
        let is_for_task = loop {
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
            break std::mem::take(&mut state.is_for_task);
        };
        if is_for_task && let Some(condition) = self.take_condition(None) {
            self.run(condition, lists);
            return self.take_outcome();
        }
        None
    }

    /// The outcome, if there is one.
    pub(super) fn take_outcome(&self) -> Option<Outcome<T>> {
        match &mut self.state.lock().stage {
            Stage::Ended(outcome) => outcome.take(),
            Stage::Waiting(_) | Stage::Tried { .. } => None,
        }
    }

    /// Tries it a last time. No outcome means that another thread is at it, and will wake the task.
    pub(super) fn try_last(&self, lists: &Lists<K>, why: WatchError) -> Option<Outcome<T>> {
        if let Some(condition) = self.take_condition(Some(why)) {
            self.forget_waker();
            self.run(condition, lists);
        }
        self.take_outcome()
    }

    pub(super) fn end_untried(&self, lists: &Lists<K>, why: WatchError) -> bool {
        let Some(condition) = self.take_condition(Some(why)) else { return false };
        self.finish(self.state.lock(), Outcome::Unmet(why), lists);
        contained(move || drop(condition));
        true
    }

    /// Its future is dropped. What it has completed with is given back, if somebody wants that; by the thread that tries
    /// it, if one does and finds that it holds.
    pub(super) fn withdraw(&self, lists: &Lists<K>, give_back: Option<GiveBack<T>>) {
        self.forget_waker();
        if self.end_untried(lists, WatchError::Cancelled) {
            return;
        }
        let Some(give_back) = give_back else { return };
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

    /// The task is here, and need not be woken.
    fn forget_waker(&self) {
        let waker = self.state.lock().waker.take();
        // If it panics the operation has to end all the same.
        contained(move || drop(waker));
    }
}

impl<K: Send + Sync, T: Send> Watched<K> for Operation<K, T> {
    fn places(&self) -> &[Place<K>] {
        &self.places
    }

    fn check(&self, lists: &Lists<K>) -> bool {
        self.take_condition(None).is_some_and(|condition| self.run(condition, lists))
    }

    fn check_in_task(&self) -> bool {
        let is_own = self.is_tried_here();
        let mut state = self.state.lock();
        match &mut state.stage {
            Stage::Waiting(_) => leave_to_task(state),
            tried @ Stage::Tried { .. } => tried.leave_word(None, is_own),
            Stage::Ended(_) => return false,
        }
        true
    }

    fn end(&self, lists: &Lists<K>, why: WatchError) -> bool {
        self.end_untried(lists, why)
    }
}
