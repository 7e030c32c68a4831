//! An operation, and the race for it: a check completes it, a cancel or the deadline ends it, or its future is dropped. One
//! of them wins.
//!
//! A thread that tries a condition takes it out of the operation, and alone decides how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | open, waiting | here | tried, by the thread that takes the condition |
//! | open, tried | with one thread | holds or panics: ended. Does not hold: tried again if a check came meanwhile, 16 times at most; else ended if somebody asked for an end; else waiting, with a check that came left to the task |
//! | withdrawn | with one thread | ended: the output is given back |
//! | ended | dropped | nothing: the future takes the outcome |
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
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use futures::task::ArcWake;
use tokio::runtime::{Handle, Id};

use crate::contained;
use crate::error::WatchError;
use crate::lists::{Item, Listed, Places};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::watch::{GiveBack, give};

/// How often in a row a thread tries a condition again because checks came meanwhile. More come only from threads that
/// check all the time.
const RETRIES: usize = 16;

/// How many conditions a thread tries within each other. Within so many, a check leaves operations to their tasks, so that
/// the stack does not grow with the number of operations.
const MOST_NESTED: usize = 16;

thread_local! {
    /// How many conditions this thread is trying, one within the other, and the address of the innermost operation, by which a
    /// condition that checks its own key is told apart.
    static TRYING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// How an operation ended, or the panic of its condition.
pub(crate) type Outcome<T> = thread::Result<Result<T, WatchError>>;

/// One block of memory for all that an operation is, but its timer, which the future has. The lists, the future and the
/// wheel have references to it: it is the waker of its timer.
pub(crate) struct Operation<K, F, T> {
    places: Places<K>,
    /// The wheel's, on which the last try runs.
    runtime: Id,
    stage: Mutex<Stage<F, T>>,
}

enum Stage<F, T> {
    Open(Open<F>),
    /// The future is gone, and a thread has the condition. This takes the output.
    Withdrawn(GiveBack<T>),
    /// With the outcome until the future takes it.
    Ended(Option<Outcome<T>>),
}

struct Open<F> {
    /// While the operation waits. Else a thread is trying it.
    condition: Option<F>,
    /// The condition is to be tried once more, by the thread that is trying it, or else by the task.
    again: bool,
    /// The operation ends for this reason unless its condition holds at the next try.
    end: Option<WatchError>,
    /// Of the task that awaits the operation, from its poll until it is woken. Woken and dropped without the lock.
    waker: Option<Waker>,
}

impl<K, F: FnMut() -> Option<T>, T> Operation<K, F, T> {
    /// The caller has the condition.
    pub(crate) fn new(places: Places<K>, runtime: Id) -> Self {
        let open = Open { condition: None, again: false, end: None, waker: None };
        Self { places, runtime, stage: Mutex::new(Stage::Open(open)) }
    }

    /// Takes the condition; or leaves a request with the thread that has it, to end the operation, or else to try again.
    fn take_or_request(&self, end: Option<WatchError>) -> Option<F> {
        let mut stage = lock(&self.stage);
        let Stage::Open(open) = &mut *stage else { return None };
        let condition = open.condition.take();
        match condition {
            Some(_) => open.again = false,
            None => self.request(open, end),
        }
        condition
    }

    /// Another thread has the condition, or the caller's does, further out.
    fn request(&self, open: &mut Open<F>, end: Option<WatchError>) {
        // Once somebody asked for an end, requests come too late.
        if open.end.is_none() {
            open.end = end;
            open.again |= match end {
                // A condition that checks its own key means the others. loom runs all threads of a model on one, and no
                // condition of a model checks.
                None => cfg!(all(test, loom)) || TRYING.get().1 != ptr::from_ref(self).addr(),
                // What held before the deadline has not failed, though the thread may have looked before that.
                Some(end) => end != WatchError::Cancelled,
            };
        }
    }

    /// Tries the condition, which the caller has, until no check has come meanwhile. If it does not hold, the operation ends
    /// for the reason `end`, or for that of which somebody has left a request. Returns the outcome if the operation ends,
    /// after it has left its lists and dropped the condition. Otherwise the operation has the condition back; where checks
    /// come again and again, its task is to try it.
    pub(crate) fn run(&self, mut condition: F, end: Option<WatchError>) -> Option<Outcome<T>> {
        let mut tries = 0;
        let outcome = loop {
            let before = TRYING.get();
            TRYING.set((before.0 + 1, ptr::from_ref(self).addr()));
            let tried = catch_unwind(AssertUnwindSafe(&mut condition));
            TRYING.set(before);
            match tried {
                Ok(None) => {}
                Ok(Some(output)) => break Ok(Ok(output)),
                // It is not called again after a panic.
                Err(panic) => break Err(panic),
            }
            tries += 1;
            let mut stage = lock(&self.stage);
            let Stage::Open(open) = &mut *stage else { break Ok(Err(WatchError::Cancelled)) };
            // Where somebody has asked for an end, no more requests come.
            if open.again && (tries <= RETRIES || open.end.is_some()) {
                open.again = false;
            } else if let Some(why) = end.or(open.end) {
                break Ok(Err(why));
            } else {
                open.condition = Some(condition);
                if open.again {
                    let waker = open.waker.take();
                    wake(stage, waker);
                }
                return None;
            }
        };
        self.leave(condition);
        Some(outcome)
    }

    /// By the thread that has the condition, before the outcome shows.
    fn leave(&self, condition: F) {
        self.places.leave();
        contained(move || drop(condition));
    }

    /// The end, by the thread that has had the condition. Wakes the task.
    fn set(&self, outcome: Outcome<T>) {
        let mut stage = lock(&self.stage);
        match mem::replace(&mut *stage, Stage::Ended(None)) {
            Stage::Withdrawn(heir) => {
                drop(stage);
                give(Some(outcome), heir);
            }
            Stage::Open(Open { waker, .. }) => {
                *stage = Stage::Ended(Some(outcome));
                wake(stage, waker);
            }
            Stage::Ended(_) => unreachable!("it ends once"),
        }
    }
}

/// Lets go of the lock, and wakes the task.
fn wake<F, T>(stage: MutexGuard<'_, Stage<F, T>>, waker: Option<Waker>) {
    drop(stage);
    if let Some(waker) = waker {
        contained(|| waker.wake());
    }
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self, end: Option<WatchError>) -> bool {
        // loom runs all threads of a model on one, so the count would be wrong.
        if !cfg!(all(test, loom)) && TRYING.get().0 >= MOST_NESTED {
            self.ask();
            return false;
        }
        let Some(condition) = self.take_or_request(end) else { return false };
        let Some(outcome) = self.run(condition, end) else { return false };
        let is_complete = matches!(outcome, Ok(Ok(_)));
        self.set(outcome);
        is_complete
    }

    fn ask(&self) -> bool {
        let mut stage = lock(&self.stage);
        let Stage::Open(open) = &mut *stage else { return false };
        if open.condition.is_none() {
            self.request(open, None);
        } else {
            open.again = true;
            let waker = open.waker.take();
            wake(stage, waker);
        }
        true
    }

    fn end(&self, end: WatchError) -> bool {
        let Some(condition) = self.take_or_request(Some(end)) else { return false };
        self.leave(condition);
        self.set(Ok(Err(end)));
        true
    }
}

/// An operation as its future has it.
pub(crate) trait Awaited<T>: Send + Sync {
    /// The outcome, if there is one; otherwise `waker` is woken when there is. Tries a condition that was left to the task.
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>>;

    /// The future is dropped: `heir` takes an output, now, or from the thread that is trying the condition.
    fn withdraw(&self, heir: GiveBack<T>);
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Operation<K, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        // The first poll nearly always needs one.
        let mut new = is_first.then(|| waker.clone());
        let condition = loop {
            let mut stage = lock(&self.stage);
            let open = match &mut *stage {
                Stage::Open(open) => open,
                Stage::Ended(outcome) => {
                    let outcome = outcome.take();
                    drop(stage);
                    // Its panic must not take the outcome along.
                    contained(move || drop(new));
                    return outcome;
                }
                Stage::Withdrawn(_) => unreachable!("its future is here"),
            };
            if new.is_some() {
                mem::swap(&mut open.waker, &mut new);
            } else if !open.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
                // A clone is made, and the one before dropped, without the lock.
                drop(stage);
                new = Some(waker.clone());
                continue;
            }
            break open.condition.take_if(|_| mem::take(&mut open.again));
        };
        if new.is_some() {
            contained(move || drop(new));
        }
        let outcome = self.run(condition?, None)?;
        // The task has the outcome, and need not wake itself.
        let ended = mem::replace(&mut *lock(&self.stage), Stage::Ended(None));
        contained(move || drop(ended));
        Some(outcome)
    }

    fn withdraw(&self, heir: GiveBack<T>) {
        let mut stage = lock(&self.stage);
        match mem::replace(&mut *stage, Stage::Ended(None)) {
            Stage::Open(open) => {
                *stage = Stage::Withdrawn(heir);
                drop(stage);
                // If it panics the operation has to end all the same.
                contained(move || drop(open.waker));
                if let Some(condition) = open.condition {
                    self.leave(condition);
                    self.set(Ok(Err(WatchError::Cancelled)));
                }
            }
            Stage::Ended(outcome) => {
                drop(stage);
                give(outcome, heir);
            }
            Stage::Withdrawn(_) => unreachable!("its future was here"),
        }
    }
}

/// By the wheel: the deadline has come, or the wheel has ended.
///
/// A task of its own tries the condition a last time, so an operation expires although nobody polls it, and no condition of a
/// user's runs on the driver.
impl<K, F, T> ArcWake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake_by_ref(operation: &Arc<Self>) {
        if !matches!(*lock(&operation.stage), Stage::Open(_)) {
            return;
        }
        let last_try = LastTry(operation.clone());
        // A thread that ends the wheel may be outside the wheel's runtime: then the operation ends as this is dropped.
        if Handle::try_current().is_ok_and(|here| here.id() == operation.runtime) {
            tokio::spawn(async move { last_try.0.check(Some(WatchError::Expired)) });
        }
    }
}

/// Ends an operation that is due and was not tried, if a runtime that ends drops this before.
struct LastTry<K>(Item<K>);

impl<K> Drop for LastTry<K> {
    fn drop(&mut self) {
        self.0.end(WatchError::Expired);
    }
}
