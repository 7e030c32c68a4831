//! The race for an operation: a check completes it, a cancel or the deadline ends it, or its future is dropped. One of
//! them wins.
//!
//! A thread that tries a condition takes it out of the operation, and alone decides how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | waiting | here | tried, by the thread that takes the condition |
//! | tried | with one thread | holds or panics: ended. Does not hold: tried again if a check came meanwhile; else ended if somebody asked for an end; else waiting |
//! | ended | dropped | nothing: the future takes the outcome, or it is given back |
//!
//! Nobody waits for the thread that tries. A check leaves a request to try the condition once more, because that thread
//! may have looked before the change. A caller that wants to end the operation leaves a request too. So checks cannot lock
//! each other out, no check is lost, and no output of a condition is thrown away for an end that came in between.
//!
//! One lock guards all of it. No code of a user's runs under that lock: conditions, wakers and outputs are taken out
//! first.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::task::Waker;
use std::thread;

use crate::contained;
use crate::error::WatchError;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::watch::GiveBack;

/// How often in a row a thread tries a condition again because checks came meanwhile. More come only from threads that
/// check all the time.
const RETRIES: usize = 16;

thread_local! {
    /// Which race this thread is trying the condition of, by its address, so that a condition that checks its own key is
    /// told apart. Where a condition checks others, the innermost.
    static TRYING: Cell<usize> = const { Cell::new(0) };
}

/// How an operation ended, or the panic of its condition.
pub(crate) type Outcome<T> = thread::Result<Result<T, WatchError>>;

/// The lists that an operation stands in.
pub(crate) trait Leave: Send + Sync {
    /// Called once, as the operation ends, before its outcome shows.
    fn leave(&self);
}

/// An operation as its future has it.
pub(crate) trait Awaited<T>: Send + Sync {
    /// The outcome, if there is one; otherwise `waker` is woken when there is. Tries a condition that was left to the task.
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>>;

    /// The future is dropped: `heir` takes an output, now, or from the thread that is trying the condition.
    fn withdraw(&self, heir: GiveBack<T>);
}

/// An operation with condition `F`, in the lists `L`.
pub(crate) struct Race<L, F, T> {
    pub(crate) lists: L,
    state: Mutex<State<F, T>>,
}

struct State<F, T> {
    /// While the operation waits. Else a thread is trying it, or it has ended.
    condition: Option<F>,
    /// The condition is to be tried once more, by the thread that is trying it, or else by the task.
    again: bool,
    /// The operation ends for this reason unless its condition holds at the next try.
    end: Option<WatchError>,
    /// Of the task that awaits the operation, from its poll until it is woken. Woken and dropped without the lock.
    waker: Option<Waker>,
    fate: Fate<T>,
}

enum Fate<T> {
    Open,
    /// The future is gone. This takes the output.
    Withdrawn(GiveBack<T>),
    /// With the outcome until the future takes it.
    Ended(Option<Outcome<T>>),
}

impl<F, T> State<F, T> {
    /// Takes the condition; or leaves a request with the thread that has it, to end the operation, or else to try again.
    fn take(&mut self, end: Option<WatchError>, is_own: bool) -> Option<F> {
        if let Some(condition) = self.condition.take() {
            self.again = false;
            self.end = end.or(self.end);
            return Some(condition);
        }
        // Once somebody asked for an end, requests come too late.
        if self.end.is_none() && !matches!(self.fate, Fate::Ended(_)) {
            self.end = end;
            // A condition that checks its own key means the others. What held before the deadline has not failed, though
            // the thread may have looked before that.
            self.again |= !is_own && end != Some(WatchError::Cancelled);
        }
        None
    }
}

impl<L: Leave, F: FnMut() -> Option<T>, T> Race<L, F, T> {
    /// The caller has the condition.
    pub(crate) fn new(lists: L) -> Self {
        let state = State { condition: None, again: false, end: None, waker: None, fate: Fate::Open };
        Self { lists, state: Mutex::new(state) }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn is_tried_here(&self) -> bool {
        // loom runs all threads of a model on one, and no condition of a model checks.
        !cfg!(all(test, loom)) && TRYING.get() == self.address()
    }

    /// Tries the condition, which the caller has, until no check has come meanwhile. Returns the outcome if the operation
    /// ends, after it has left its lists and dropped the condition. Otherwise the operation has the condition back; where
    /// checks come again and again, its task is to try it.
    pub(crate) fn run(&self, mut condition: F) -> Option<Outcome<T>> {
        let mut tries = 0;
        let outcome = loop {
            let before = TRYING.replace(self.address());
            let tried = catch_unwind(AssertUnwindSafe(&mut condition));
            TRYING.set(before);
            match tried {
                Ok(None) => {}
                Ok(Some(output)) => break Ok(Ok(output)),
                // It is not called again after a panic.
                Err(panic) => break Err(panic),
            }
            tries += 1;
            let mut state = lock(&self.state);
            if state.again && (tries <= RETRIES || state.end.is_some()) {
                state.again = false;
            } else if let Some(why) = state.end {
                break Ok(Err(why));
            } else {
                state.condition = Some(condition);
                if state.again {
                    wake_task(state);
                }
                return None;
            }
        };
        Some(self.leave(condition, outcome))
    }

    /// By the thread that has the condition.
    fn leave(&self, condition: F, outcome: Outcome<T>) -> Outcome<T> {
        self.lists.leave();
        contained(move || drop(condition));
        outcome
    }

    /// Has the thread that tries the condition end the operation for this reason, unless the condition holds.
    pub(crate) fn end_after_try(&self, why: WatchError) {
        lock(&self.state).end.get_or_insert(why);
    }

    /// Tries the condition, and ends the operation if it holds, or else for the reason `end`. If a thread has the condition,
    /// leaves a request there. Tells whether this call completed the operation.
    pub(crate) fn attempt(&self, end: Option<WatchError>) -> bool {
        let is_own = self.is_tried_here();
        let condition = lock(&self.state).take(end, is_own);
        let Some(outcome) = condition.and_then(|condition| self.run(condition)) else { return false };
        let is_complete = matches!(outcome, Ok(Ok(_)));
        self.end(outcome);
        is_complete
    }

    /// Ends the operation without a try, or leaves a request with the thread that has the condition. Tells whether this call
    /// did.
    pub(crate) fn end_untried(&self, why: WatchError) -> bool {
        let condition = lock(&self.state).take(Some(why), false);
        condition.map(|condition| self.end(self.leave(condition, Ok(Err(why))))).is_some()
    }

    /// The end, by the thread that has had the condition. Wakes the task.
    fn end(&self, outcome: Outcome<T>) {
        let mut state = lock(&self.state);
        match mem::replace(&mut state.fate, Fate::Ended(None)) {
            Fate::Withdrawn(heir) => {
                drop(state);
                heir.give(Some(outcome));
            }
            _ => {
                state.fate = Fate::Ended(Some(outcome));
                wake_task(state);
            }
        }
    }

    /// Leaves the condition to the task, or to the thread that is trying it. Tells whether the operation was pending.
    pub(crate) fn ask_task(&self) -> bool {
        let is_own = self.is_tried_here();
        let mut state = lock(&self.state);
        let is_pending = !matches!(state.fate, Fate::Ended(_));
        if state.condition.is_some() {
            state.again = true;
            wake_task(state);
        } else {
            state.take(None, is_own);
        }
        is_pending
    }

    /// The deadline has come: asks the task, or the thread that is trying the condition, for the last try. Tells whether
    /// neither is there.
    pub(crate) fn expire(&self) -> bool {
        let mut state = lock(&self.state);
        if state.condition.is_none() {
            state.take(Some(WatchError::Expired), false);
            return false;
        }
        state.end = Some(WatchError::Expired);
        let is_nobody_waiting = state.waker.is_none();
        wake_task(state);
        is_nobody_waiting
    }
}

impl<L: Leave, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Race<L, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        // The first poll surely needs one.
        let mut new = is_first.then(|| waker.clone());
        let condition = loop {
            let mut state = lock(&self.state);
            if let Fate::Ended(outcome) = &mut state.fate {
                return outcome.take();
            }
            if new.is_none() && !state.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
                // A clone is made, and the one before dropped, without the lock.
                drop(state);
                new = Some(waker.clone());
                continue;
            }
            if new.is_some() {
                mem::swap(&mut state.waker, &mut new);
            }
            let is_asked = state.again || state.end.is_some();
            break if is_asked { state.take(None, false) } else { None };
        };
        drop(new);
        let outcome = self.run(condition?)?;
        // The task has the outcome, and need not wake itself.
        let mut state = lock(&self.state);
        state.fate = Fate::Ended(None);
        let waker = state.waker.take();
        drop(state);
        contained(move || drop(waker));
        Some(outcome)
    }

    fn withdraw(&self, heir: GiveBack<T>) {
        let mut state = lock(&self.state);
        let waker = state.waker.take();
        let condition = state.take(Some(WatchError::Cancelled), false);
        if let Fate::Ended(outcome) = &mut state.fate {
            let outcome = outcome.take();
            drop(state);
            heir.give(outcome);
        } else {
            state.fate = Fate::Withdrawn(heir);
            drop(state);
        }
        // If it panics the operation has to end all the same.
        contained(move || drop(waker));
        if let Some(condition) = condition {
            self.end(self.leave(condition, Ok(Err(WatchError::Cancelled))));
        }
    }
}

/// Lets go of the lock, and wakes the task.
fn wake_task<F, T>(mut state: MutexGuard<'_, State<F, T>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        contained(|| waker.wake());
    }
}
