//! The race for an operation: a check completes it, a cancel or the deadline ends it, or its future is dropped. One of
//! them wins.
//!
//! A thread that tries a condition takes it out of the operation, and alone decides how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | `Waiting` | here | `Tried`, by the thread that takes the condition |
//! | `Tried` | with one thread | holds or panics: `Ended`. Does not hold: tried again if a check came meanwhile; else `Ended` if somebody asked for an end; else `Waiting` |
//! | `Ended` | dropped | nothing: the future takes the outcome, or it is given back |
//!
//! Nobody waits for the thread that tries. A check leaves a request to try the condition once more, because that thread
//! may have looked before the change. A caller that wants to end the operation leaves a request too. So checks cannot lock
//! each other out, no check is lost, and no output of a condition is thrown away for an end that came in between.
//!
//! One lock guards all of it. No code of a user's runs under that lock: conditions, wakers and outputs are taken out
//! first.

use std::any::Any;
use std::mem;
use std::sync::PoisonError;
use std::task::Waker;
use std::thread;

use crate::contained;
use crate::error::WatchError;
use crate::sync::{Mutex, MutexGuard};
use crate::watch::GiveBack;

/// How often in a row a thread tries a condition again because checks came meanwhile. More come only from threads that
/// check all the time.
const RETRIES: usize = 16;

/// How an operation ended.
pub(crate) enum Outcome<T> {
    Completed(T),
    Unmet(WatchError),
    /// The condition panicked. Boxed twice: panics are rare, and each operation has room for its outcome.
    Panicked(Box<Box<dyn Any + Send>>),
}

impl<T> Outcome<T> {
    fn output(self) -> Option<T> {
        if let Self::Completed(output) = self { Some(output) } else { None }
    }
}

/// The state of an operation. `P` is what a thread takes to try it.
pub(crate) struct Race<P, T>(Mutex<State<P, T>>);

struct State<P, T> {
    stage: Stage<P, T>,
    /// The operation ends for this reason unless its condition holds at the next try.
    end: Option<WatchError>,
    /// The condition is to be tried once more, by the thread that is trying it, or else by the task.
    again: bool,
    told: Told<T>,
}

/// The taker of the outcome.
enum Told<T> {
    /// The future, whose task has not come yet or has been woken.
    Nobody,
    Task(Waker),
    /// The future is gone. This takes the output.
    Heir(GiveBack<T>),
}

impl<T> Told<T> {
    /// The waker of the task, if there is one, which is woken or dropped without the lock.
    fn take_task(&mut self) -> Option<Waker> {
        match mem::replace(self, Self::Nobody) {
            Self::Task(waker) => Some(waker),
            told => {
                *self = told;
                None
            }
        }
    }
}

enum Stage<P, T> {
    Waiting(P),
    Tried,
    /// With the outcome until somebody takes it.
    Ended(Option<Outcome<T>>),
}

impl<P, T> State<P, T> {
    /// Takes the condition; or leaves a request with the thread that has it, to end the operation, or else to try again.
    fn take(&mut self, end: Option<WatchError>, is_own: bool) -> Option<P> {
        match (&self.stage, end) {
            (Stage::Waiting(_), _) => {
                self.again = false;
                self.end = end.or(self.end);
                if let Stage::Waiting(pending) = mem::replace(&mut self.stage, Stage::Tried) {
                    return Some(pending);
                }
            }
            (Stage::Tried, Some(why)) if self.end.is_none() => {
                self.end = end;
                // What held before the deadline has not failed, though the thread may have looked before that.
                self.again |= !is_own && why != WatchError::Cancelled;
            }
            // A condition that checks its own key means the others.
            (Stage::Tried, None) if self.end.is_none() => self.again |= !is_own,
            // Once somebody asked for an end, requests come too late.
            (Stage::Tried | Stage::Ended(_), _) => {}
        }
        None
    }
}

impl<P, T> Race<P, T> {
    /// The caller has the condition.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { stage: Stage::Tried, end: None, again: false, told: Told::Nobody }))
    }

    fn lock(&self) -> MutexGuard<'_, State<P, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the condition to try it, or to end the operation. If a thread has it, leaves a request there: to end for this
    /// reason, or else to try again, unless the thread of that try `is_own`.
    pub(crate) fn take(&self, end: Option<WatchError>, is_own: bool) -> Option<P> {
        self.lock().take(end, is_own)
    }

    /// Has `attempt` try the condition, which the caller has, until no check has come meanwhile. Returns it with the outcome
    /// for [`end`](Self::end), if the operation is to end. Otherwise the operation has it back; where checks come again and
    /// again, its task is to try it.
    pub(crate) fn run(
        &self,
        mut pending: P,
        mut attempt: impl FnMut(&mut P) -> thread::Result<Option<T>>,
    ) -> Option<(P, Outcome<T>)> {
        let mut retries = 0;
        loop {
            match attempt(&mut pending) {
                Ok(Some(output)) => return Some((pending, Outcome::Completed(output))),
                // It is not called again after a panic.
                Err(panic) => return Some((pending, Outcome::Panicked(Box::new(panic)))),
                Ok(None) => {}
            }
            let mut state = self.lock();
            if state.again && (retries < RETRIES || state.end.is_some()) {
                state.again = false;
                retries += 1;
            } else if let Some(why) = state.end {
                return Some((pending, Outcome::Unmet(why)));
            } else {
                state.stage = Stage::Waiting(pending);
                if state.again {
                    wake_task(state);
                }
                return None;
            }
        }
    }

    /// The end, by the thread that has the condition. Wakes the task.
    pub(crate) fn end(&self, outcome: Outcome<T>) {
        let mut state = self.lock();
        match mem::replace(&mut state.told, Told::Nobody) {
            Told::Heir(heir) => {
                state.stage = Stage::Ended(None);
                drop(state);
                heir.give(outcome.output());
            }
            told => {
                state.told = told;
                state.stage = Stage::Ended(Some(outcome));
                wake_task(state);
            }
        }
    }

    /// Leaves the condition to the task, or to the thread that is trying it. Tells whether the operation was pending.
    pub(crate) fn ask_task(&self, is_own: bool) -> bool {
        let mut state = self.lock();
        match state.stage {
            Stage::Waiting(_) => {
                state.again = true;
                wake_task(state);
            }
            // Once somebody asked for an end, requests come too late.
            Stage::Tried => state.again |= !is_own && state.end.is_none(),
            Stage::Ended(_) => return false,
        }
        true
    }

    /// The deadline has come: asks the task, or the thread that is trying the condition, for the last try. Tells whether
    /// neither is there.
    pub(crate) fn expire(&self) -> bool {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Waiting(_)) {
            state.take(Some(WatchError::Expired), false);
            return false;
        }
        state.end = Some(WatchError::Expired);
        let is_unpolled = matches!(state.told, Told::Nobody);
        wake_task(state);
        is_unpolled
    }

    /// The outcome, if there is one; otherwise `waker` is woken when there is. Has `run` try a condition that was left to
    /// the task.
    pub(crate) fn poll(
        &self,
        waker: &Waker,
        is_first: bool,
        run: impl FnOnce(P) -> Option<Outcome<T>>,
    ) -> Option<Outcome<T>> {
        // The first poll surely needs one.
        let mut new = is_first.then(|| waker.clone());
        let pending = loop {
            let mut state = self.lock();
            if let Stage::Ended(outcome) = &mut state.stage {
                return outcome.take();
            }
            if new.is_none() && !matches!(&state.told, Told::Task(current) if current.will_wake(waker)) {
                // A clone is made, and the one before dropped, without the lock.
                drop(state);
                new = Some(waker.clone());
                continue;
            }
            if let Some(waker) = new.take() {
                new = state.told.take_task();
                state.told = Told::Task(waker);
            }
            let is_asked = state.again || state.end.is_some();
            break if is_asked { state.take(None, false) } else { None };
        };
        drop(new);
        let outcome = run(pending?)?;
        // The task has the outcome, and need not wake itself.
        let mut state = self.lock();
        state.stage = Stage::Ended(None);
        let waker = state.told.take_task();
        drop(state);
        drop(waker);
        Some(outcome)
    }

    /// The future is dropped: `heir` takes an output, now, or from the thread that is trying the condition. The caller ends
    /// the operation with what this returns.
    pub(crate) fn withdraw(&self, heir: GiveBack<T>) -> Option<P> {
        let mut state = self.lock();
        let waker = state.told.take_task();
        let pending = state.take(Some(WatchError::Cancelled), false);
        if let Stage::Ended(outcome) = &mut state.stage {
            let outcome = outcome.take();
            drop(state);
            heir.give(outcome.and_then(Outcome::output));
        } else {
            state.told = Told::Heir(heir);
            drop(state);
        }
        // If it panics the operation has to end all the same.
        contained(move || drop(waker));
        pending
    }

    /// Reads what waits here.
    pub(crate) fn waiting<R>(&self, read: impl FnOnce(&P) -> R) -> Option<R> {
        if let Stage::Waiting(pending) = &self.lock().stage { Some(read(pending)) } else { None }
    }
}

/// Lets go of the lock, and wakes the task.
fn wake_task<P, T>(mut state: MutexGuard<'_, State<P, T>>) {
    let waker = state.told.take_task();
    drop(state);
    if let Some(waker) = waker {
        contained(|| waker.wake());
    }
}
