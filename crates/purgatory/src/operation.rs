//! One operation: in its lists and on the wheel, tried, and at its end out of both.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

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
    deadline: Instant,
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
        Self: Listed<K> + Wake + 'static,
    {
        let operation =
            Arc::new(Self { lists: lists.clone(), places, deadline: sleep.deadline(), race: Race::new() });
        let end = if lists.add(&operation) {
            match sleep.poll_wait(&mut Context::from_waker(&operation.clone().into())) {
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
        operation.run(Pending { condition, sleep });
        match operation.race.take_outcome() {
            None => Ok(operation),
            Some(outcome) => Err(outcome),
        }
    }

    /// Tries the condition, and tells whether the operation is complete by that.
    fn run(&self, pending: Pending<F>) -> bool {
        let ended = self.race.run(pending, |pending| {
            let before = TRYING.replace(self.address());
            let tried = catch_unwind(AssertUnwindSafe(&mut pending.condition));
            TRYING.set(before);
            tried
        });
        let Some((pending, outcome)) = ended else { return false };
        let is_complete = matches!(outcome, Outcome::Completed(_));
        self.finish(pending, outcome);
        is_complete
    }

    /// By the thread that has the condition.
    fn finish(&self, Pending { condition, mut sleep }: Pending<F>, mut outcome: Outcome<T>) {
        self.lists.remove(&self.places);
        // Only the timer knows whether that was the deadline, or the end of the wheel.
        if let Outcome::Unmet(why @ WatchError::Expired) = &mut outcome
            && let Poll::Ready(Err(error)) = sleep.poll_wait(&mut Context::from_waker(Waker::noop()))
        {
            *why = WatchError::CouldNotRun(error);
        }
        drop(sleep);
        contained(move || drop(condition));
        self.race.end(outcome);
    }

    fn end_untried(&self, why: WatchError) -> bool {
        let pending = self.race.take(Some(why), false);
        pending.map(|pending| self.finish(pending, Outcome::Unmet(why))).is_some()
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
        let pending = self.race.take(None, self.is_tried_here());
        pending.is_some_and(|pending| self.run(pending))
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

    /// `None` once it has ended.
    fn deadline(&self) -> Option<Instant>;
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Operation<K, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        self.race.poll(waker, is_first, |pending| _ = self.run(pending))
    }

    fn withdraw(&self, heir: GiveBack<T>) {
        if let Some(pending) = self.race.withdraw(heir) {
            self.finish(pending, Outcome::Unmet(WatchError::Cancelled));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        (!self.race.has_ended()).then_some(self.deadline)
    }
}

/// By the wheel: the deadline has come, or the wheel has ended.
///
/// The task that awaits an operation tries its condition a last time. Where nobody has polled, a task is spawned for that.
/// So the operation leaves the lists all the same, and no condition of a user's runs on the driver.
impl<K, F, T> Wake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        if self.race.expire() {
            let last_try = LastTry(self);
            // Whoever ends the wheel may be outside every runtime: then the operation ends as this is dropped.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async { last_try.run() });
            }
        }
    }
}

/// Ends an operation that is due, by a last try; or untried, by a runtime that ends and drops this before.
struct LastTry<K, F: FnMut() -> Option<T>, T>(Arc<Operation<K, F, T>>);

impl<K, F: FnMut() -> Option<T>, T> LastTry<K, F, T> {
    fn run(self) {
        if let Some(pending) = self.0.race.take(Some(WatchError::Expired), false) {
            self.0.run(pending);
        }
    }
}

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(WatchError::Expired);
    }
}
