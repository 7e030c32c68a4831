//! One operation: in its lists and on the wheel, tried, and at its end out of both.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::task::{ArcWake, waker_ref};
use timingwheel::Sleep;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::contained;
use crate::error::WatchError;
use crate::lists::{Listed, Lists, Places};
use crate::race::{Outcome, Race};
use crate::watch::GiveBack;

/// One block of memory for all that an operation is. The lists, the future and the wheel have references to it: it is the
/// waker of its timer.
pub(crate) struct Operation<K, F, T> {
    lists: Arc<Lists<K>>,
    places: Places<K>,
    race: Race<Pending<F>, T>,
}

/// The condition and the timer, which a thread takes to try an operation.
struct Pending<F> {
    condition: F,
    sleep: Sleep,
}

impl<K, F: FnMut() -> Option<T>, T> Operation<K, F, T> {
    /// Adds an operation to its lists and to the wheel, and tries it once more.
    pub(crate) fn start(
        lists: &Arc<Lists<K>>,
        places: Places<K>,
        mut sleep: Sleep,
        condition: F,
    ) -> Result<Arc<Self>, Outcome<T>>
    where
        Self: Listed<K> + ArcWake + 'static,
    {
        let operation = Arc::new(Self { lists: lists.clone(), places, race: Race::new() });
        let end = if lists.add(&operation) {
            match sleep.poll_wait(&mut Context::from_waker(&waker_ref(&operation))) {
                Poll::Pending => None,
                Poll::Ready(Ok(())) => Some(WatchError::Expired),
                Poll::Ready(Err(error)) => Some(WatchError::CouldNotRun(error)),
            }
        } else {
            Some(WatchError::Cancelled)
        };
        if end.is_some() {
            // The condition is with this thread, so the operation ends when that does not hold.
            operation.race.take(end, true);
        }
        // Nobody has its future yet, so nobody else asks for the outcome.
        operation.run(Pending { condition, sleep }).map_or(Ok(operation), Err)
    }

    /// Tries the condition. The outcome, if that ends the operation.
    fn run(&self, pending: Pending<F>) -> Option<Outcome<T>> {
        let (pending, outcome) = self.race.run(pending, |pending| {
            let before = TRYING.replace(self.address());
            let tried = catch_unwind(AssertUnwindSafe(&mut pending.condition));
            TRYING.set(before);
            tried
        })?;
        Some(self.leave(pending, outcome))
    }

    /// Out of the lists and the wheel, by the thread that has the condition.
    fn leave(&self, Pending { condition, mut sleep }: Pending<F>, mut outcome: Outcome<T>) -> Outcome<T> {
        self.lists.remove(&self.places);
        // Only the timer knows whether that was the deadline, or the end of the wheel.
        if let Outcome::Unmet(why @ WatchError::Expired) = &mut outcome
            && let Poll::Ready(Err(error)) = sleep.poll_wait(&mut Context::from_waker(Waker::noop()))
        {
            *why = WatchError::CouldNotRun(error);
        }
        drop(sleep);
        contained(move || drop(condition));
        outcome
    }

    /// Tries the condition, as [`Race::take`] says, and tells whether this completed the operation.
    fn attempt(&self, end: Option<WatchError>, is_own: bool) -> bool {
        let Some(outcome) = self.race.take(end, is_own).and_then(|pending| self.run(pending)) else {
            return false;
        };
        let is_complete = matches!(outcome, Outcome::Completed(_));
        self.race.end(outcome);
        is_complete
    }

    /// Ends the operation without a try, and tells whether this call did.
    fn end_untried(&self, why: WatchError) -> bool {
        let pending = self.race.take(Some(why), false);
        pending.map(|pending| self.race.end(self.leave(pending, Outcome::Unmet(why)))).is_some()
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    fn is_tried_here(&self) -> bool {
        TRYING.get() == self.address()
    }
}

thread_local! {
    /// Which operation this thread is trying, by its address, so that a condition that checks its own key is told apart.
    /// Where a condition checks others, the innermost.
    static TRYING: Cell<usize> = const { Cell::new(0) };
}

/// The calls of checks and cancels, for an operation that they find in a list.
impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self) -> bool {
        self.attempt(None, self.is_tried_here())
    }

    fn check_in_task(&self) -> bool {
        self.race.ask_task(self.is_tried_here())
    }

    fn cancel(&self) -> bool {
        self.end_untried(WatchError::Cancelled)
    }
}

/// An operation as its future has it.
pub(crate) trait Awaited<T>: Send + Sync {
    /// The outcome, if there is one; otherwise `waker` is woken when there is. Tries the condition if that was left to the
    /// task.
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>>;

    /// The future is dropped, and `heir` takes an output that it has not taken; in the thread that tries the condition, if
    /// one does and finds that it holds.
    fn withdraw(&self, heir: GiveBack<T>);

    /// `None` once it has ended, and while its condition is being tried.
    fn deadline(&self) -> Option<Instant>;
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Operation<K, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        self.race.poll(waker, is_first, |pending| self.run(pending))
    }

    fn withdraw(&self, heir: GiveBack<T>) {
        if let Some(pending) = self.race.withdraw(heir) {
            self.race.end(self.leave(pending, Outcome::Unmet(WatchError::Cancelled)));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.race.waiting(|pending| pending.sleep.deadline())
    }
}

/// By the wheel: the deadline has come, or the wheel has ended.
///
/// The task that awaits an operation tries its condition a last time. Where nobody has polled, a task is spawned for that.
/// So the operation leaves the lists all the same, and no condition of a user's runs on the driver.
impl<K, F, T> ArcWake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake_by_ref(operation: &Arc<Self>) {
        if operation.race.expire() {
            let last_try = LastTry(operation.clone());
            // Whoever ends the wheel may be outside every runtime: then the operation ends as this is dropped.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async move { _ = last_try.0.attempt(Some(WatchError::Expired), false) });
            }
        }
    }
}

/// Ends an operation that is due and was not tried, if a runtime that ends drops this before.
struct LastTry<K, F: FnMut() -> Option<T>, T>(Arc<Operation<K, F, T>>);

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(WatchError::Expired);
    }
}
