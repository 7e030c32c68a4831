//! One operation, and the race for it: a check completes it, a cancel or the deadline ends it, and one of them wins.
//!
//! A condition is a user's code and runs without any lock. Whoever tries it takes it out of the operation, and alone decides
//! how the operation goes on:
//!
//! | stage | the condition | next |
//! |---|---|---|
//! | `Waiting` | here | tried by a check or at the deadline, or cancelled: `Tried`, by whoever takes the condition |
//! | `Tried` | with one thread | holds: `Ended`, completed. Panics: `Ended`. Does not hold: tried again if a check came meanwhile, or after [`RETRIES`] `Waiting`, for the task; else `Ended` if an end was asked for; else `Waiting` |
//! | `Ended` | dropped | nothing: the outcome is taken by the future, or given back |
//!
//! Nobody waits for a thread that tries. A check leaves a request to try the condition once more, as what the thread saw may
//! be out of date; whoever wants to end the operation leaves a request for that. So checks of any keys, from any threads and
//! from within conditions, cannot lock each other out, no check is lost, and what a condition returns is never thrown away
//! for an end that came in between.
//!
//! The wheel's timer has the operation itself as its waker. The timer is touched and dropped without the lock, because that
//! may drop wakers of strangers.

use std::any::Any;
use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use timingwheel::Sleep;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::WatchError;
use crate::lists::{Listed, Lists, Places};
use crate::watch::GiveBack;
use crate::{contained, lock};

/// How often in a row whoever tries a condition tries it again because checks came meanwhile. More than a few others can
/// only be at it if they check all the time.
const RETRIES: usize = 16;

/// How an operation ended.
pub(crate) enum Outcome<T> {
    Completed(T),
    Unmet(WatchError),
    /// The condition panicked. Boxed twice: panics are rare, and each operation has room for its outcome.
    Panicked(Box<Box<dyn Any + Send>>),
}

/// One block of memory for all that an operation is. The lists, the future and the wheel have references to it.
pub(crate) struct Operation<K, F, T> {
    lists: Arc<Lists<K>>,
    places: Places<K>,
    state: Mutex<State<F, T>>,
}

struct State<F, T> {
    stage: Stage<F, T>,
    /// Of the task that awaits the outcome.
    waker: Option<Waker>,
    /// Until the operation ends.
    sleep: Option<Sleep>,
    /// The future has been polled, so its task will try the condition when it is left to it.
    is_awaited: bool,
    /// The task is to try the condition when it polls next. Only while it is `Waiting`.
    is_for_task: bool,
    /// The deadline has come, or the wheel has ended.
    is_due: bool,
    /// A check came while the condition was tried.
    again: bool,
}

enum Stage<F, T> {
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
enum End {
    /// The wheel has woken it.
    Due,
    Because(WatchError),
}

/// What a try led to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Waits,
    Completed,
    /// In another way.
    Ended,
}

impl<F, T> State<F, T> {
    /// Leaves a request with the thread that tries the condition: to end the operation, or else to try again.
    fn leave_word(&mut self, end: Option<End>, is_own: bool) {
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

    fn take_outcome(&mut self) -> Option<Outcome<T>> {
        match &mut self.stage {
            Stage::Ended(outcome) => outcome.take(),
            Stage::Waiting(_) | Stage::Tried { .. } => None,
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

impl<K, F: FnMut() -> Option<T>, T> Operation<K, F, T> {
    /// The caller has the condition.
    pub(crate) fn new(lists: Arc<Lists<K>>, places: Places<K>) -> Self {
        let state = State {
            stage: Stage::Tried { end: None, give_back: None },
            waker: None,
            sleep: None,
            is_awaited: false,
            is_for_task: false,
            is_due: false,
            again: false,
        };
        Self { lists, places, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State<F, T>> {
        lock(&self.state)
    }

    /// Adds the operation, whose condition the caller has, to its lists and to the wheel, and tries it once more.
    pub(crate) fn start(self: &Arc<Self>, condition: F, mut sleep: Sleep) -> Tried
    where
        Self: Listed<K> + Wake + 'static,
    {
        let end = if self.lists.add(self) {
            match sleep.poll_wait(&mut Context::from_waker(&self.clone().into())) {
                Poll::Pending => None,
                Poll::Ready(Ok(())) => Some(End::Due),
                Poll::Ready(Err(error)) => Some(End::Because(WatchError::CouldNotRun(error))),
            }
        } else {
            Some(End::Because(WatchError::Cancelled))
        };
        if end.is_some() {
            // The condition is with this thread, so the operation ends when that does not hold.
            self.lock().leave_word(end, true);
        }
        self.run(condition, Some(sleep))
    }

    /// Tries the condition, which the caller has taken, until no check has come meanwhile. Where checks come again and
    /// again, the caller is not kept: the condition is left to its task then. `sleep` is the timer if the operation is new.
    fn run(&self, mut condition: F, mut sleep: Option<Sleep>) -> Tried {
        let mut retries = 0;
        loop {
            let tried = {
                let _trying = Trying::begin(ptr::from_ref(self).addr());
                // It is not called again after a panic.
                catch_unwind(AssertUnwindSafe(&mut condition))
            };
            let mut state = self.lock();
            if sleep.is_some() {
                state.sleep = sleep.take();
            }
            let Stage::Tried { end, .. } = state.stage else {
                unreachable!("it goes on only by whoever has its condition");
            };
            let outcome = match tried {
                Ok(Some(output)) => Outcome::Completed(output),
                Err(panic) => Outcome::Panicked(Box::new(panic)),
                Ok(None) if state.again && (retries < RETRIES || end.is_some()) => {
                    state.again = false;
                    retries += 1;
                    continue;
                }
                Ok(None) => match end {
                    Some(End::Because(why)) => Outcome::Unmet(why),
                    Some(End::Due) => Outcome::Unmet(WatchError::Expired),
                    None => {
                        state.stage = Stage::Waiting(condition);
                        if state.again {
                            state.is_for_task = true;
                            wake_task(state);
                        }
                        return Tried::Waits;
                    }
                },
            };
            let is_completed = matches!(outcome, Outcome::Completed(_));
            self.finish(state, outcome, matches!(end, Some(End::Due)));
            contained(move || drop(condition));
            return if is_completed { Tried::Completed } else { Tried::Ended };
        }
    }

    /// Takes the condition to try it. If a thread has it, leaves a request there: to end, or else to try again.
    fn take_condition(&self, state: &mut State<F, T>, end: Option<End>) -> Option<F> {
        if !matches!(state.stage, Stage::Waiting(_)) {
            state.leave_word(end, Trying::is(ptr::from_ref(self).addr()));
            return None;
        }
        (state.is_for_task, state.again) = (false, false);
        match mem::replace(&mut state.stage, Stage::Tried { end, give_back: None }) {
            Stage::Waiting(condition) => Some(condition),
            Stage::Tried { .. } | Stage::Ended(_) => None,
        }
    }

    /// For whoever has the condition: sets the outcome, and tells the task. One that is due learns from the timer why: the
    /// wheel may have ended.
    fn finish<'a>(&'a self, mut state: MutexGuard<'a, State<F, T>>, mut outcome: Outcome<T>, is_due: bool) {
        let mut sleep = state.sleep.take();
        if is_due && let (Outcome::Unmet(why), Some(timer)) = (&mut outcome, &mut sleep) {
            drop(state);
            if let Poll::Ready(Err(error)) = timer.poll_wait(&mut Context::from_waker(Waker::noop())) {
                *why = WatchError::CouldNotRun(error);
            }
            state = self.lock();
        }
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
        let waker = state.waker.take();
        drop(state);
        self.lists.remove(&self.places);
        drop(sleep);
        if let Some(waker) = waker {
            contained(|| waker.wake());
        }
        if let Some((give_back, outcome)) = unclaimed {
            give_back.give(outcome);
        }
    }

    fn end_untried(&self, end: End) -> bool {
        let mut state = self.lock();
        let Some(condition) = self.take_condition(&mut state, Some(end)) else { return false };
        let why = if let End::Because(why) = end { why } else { WatchError::Expired };
        self.finish(state, Outcome::Unmet(why), matches!(end, End::Due));
        contained(move || drop(condition));
        true
    }

    pub(crate) fn take_outcome(&self) -> Option<Outcome<T>> {
        self.lock().take_outcome()
    }

    fn forget_waker(&self) {
        let waker = self.lock().waker.take();
        // If it panics the operation has to end all the same.
        contained(move || drop(waker));
    }
}

/// What checks and cancels do with an operation that they find in a list.
impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self) -> bool {
        let condition = self.take_condition(&mut self.lock(), None);
        condition.is_some_and(|condition| self.run(condition, None) == Tried::Completed)
    }

    fn check_in_task(&self) -> bool {
        let mut state = self.lock();
        match &mut state.stage {
            Stage::Waiting(_) => {
                state.is_for_task = true;
                wake_task(state);
            }
            Stage::Tried { .. } => state.leave_word(None, Trying::is(ptr::from_ref(self).addr())),
            Stage::Ended(_) => return false,
        }
        true
    }

    fn end(&self, why: WatchError) -> bool {
        self.end_untried(End::Because(why))
    }
}

/// An operation as its future has it.
pub(crate) trait Awaited<T>: Send + Sync {
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
            let mut state = self.lock();
            if let Stage::Ended(outcome) = &mut state.stage {
                return outcome.take();
            }
            if clone.is_some() {
                mem::swap(&mut state.waker, &mut clone);
            } else if !state.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
                // A clone is made, and the one before dropped, without the lock.
                drop(state);
                clone = Some(waker.clone());
                continue;
            }
            state.is_awaited = true;
            let has_come = state.sleep.as_ref().is_some_and(Sleep::is_elapsed);
            break (state.is_due || has_come, mem::take(&mut state.is_for_task));
        };
        drop(clone);
        if !is_due && !is_for_task {
            return None;
        }
        // Without it another thread is at it, and will wake the task.
        let condition = self.take_condition(&mut self.lock(), is_due.then_some(End::Due))?;
        if is_due {
            self.forget_waker();
        }
        self.run(condition, None);
        self.take_outcome()
    }

    fn withdraw(&self, give_back: Option<GiveBack<T>>) {
        self.forget_waker();
        if self.end_untried(End::Because(WatchError::Cancelled)) {
            return;
        }
        // Other references may keep the operation for a while. What it has completed with goes now, and here.
        let give_back = Box::new(give_back.unwrap_or_else(GiveBack::dropped));
        let mut state = self.lock();
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
        self.lock().sleep.as_ref().map(Sleep::deadline)
    }
}

/// By the wheel: the deadline has come, or the wheel has ended.
///
/// The condition of an operation that has been polled is tried a last time by its task. Where nobody has polled, a task is
/// spawned for that, so that the operation leaves the lists all the same, and none of a user's conditions runs on the
/// driver.
impl<K, F, T> Wake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        match &mut state.stage {
            Stage::Ended(_) => {}
            Stage::Tried { .. } => state.leave_word(Some(End::Due), false),
            Stage::Waiting(_) => {
                state.is_due = true;
                if state.is_awaited {
                    return wake_task(state);
                }
                drop(state);
                let last_try = LastTry(self);
                // Whoever ends the wheel may be outside every runtime: then the operation ends as this is dropped.
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(last_try);
                }
            }
        }
    }
}

/// Tries a condition a last time. Dropped before that, by a runtime that ends, it ends the operation untried.
struct LastTry<K, F: FnMut() -> Option<T>, T>(Arc<Operation<K, F, T>>);

/// Nothing points into it.
impl<K, F: FnMut() -> Option<T>, T> Unpin for LastTry<K, F, T> {}

impl<K, F: FnMut() -> Option<T>, T> Future for LastTry<K, F, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let condition = self.0.take_condition(&mut self.0.lock(), Some(End::Due));
        if let Some(condition) = condition {
            self.0.run(condition, None);
        }
        Poll::Ready(())
    }
}

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(End::Due);
    }
}

/// What this thread tries, by the operation's address, so that a condition that checks its own key is told apart; of
/// conditions that check others, the innermost.
struct Trying {
    before: usize,
}

thread_local!(static TRYING: Cell<usize> = const { Cell::new(0) });

impl Trying {
    fn begin(operation: usize) -> Self {
        // A thread that is about to end has no such place any more. Then a condition that checks its own key is tried
        // again for that.
        Self { before: TRYING.try_with(|trying| trying.replace(operation)).unwrap_or_default() }
    }

    fn is(operation: usize) -> bool {
        TRYING.try_with(|trying| trying.get() == operation).unwrap_or_default()
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        let _ = TRYING.try_with(|trying| trying.set(self.before));
    }
}
