//! One operation: in its lists and on the wheel, tried, and at its end out of both.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use timingwheel::Sleep;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::contained;
use crate::error::WatchError;
use crate::lists::{Listed, Lists, Places};
use crate::race::{Next, Outcome, Race};
use crate::watch::GiveBack;

/// One block of memory for all that an operation is. The lists, the future and the wheel have references to it: it is the
/// waker of its timer.
pub(crate) struct Operation<K, F, T> {
    lists: Arc<Lists<K>>,
    places: Places<K>,
    deadline: Instant,
    race: Race<Pending<F>, T>,
}

/// What a thread takes to try an operation.
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
            match sleep.poll_try_wait(&mut Context::from_waker(&operation.clone().into())) {
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

    /// Tries the condition until no check has come meanwhile. Where checks come again and again, the condition is left to
    /// its task. Tells whether the operation is complete.
    fn run(&self, mut pending: Pending<F>) -> bool {
        for retries in 0.. {
            let tried = {
                let _trying = Trying::begin(self.address());
                // It is not called again after a panic.
                catch_unwind(AssertUnwindSafe(&mut pending.condition))
            };
            let outcome = match tried {
                Ok(Some(output)) => Outcome::Completed(output),
                Err(panic) => Outcome::Panicked(Box::new(panic)),
                Ok(None) => match self.race.put_back(pending, retries) {
                    Next::TryAgain(same) => {
                        pending = same;
                        continue;
                    }
                    Next::End(pending, why) => {
                        self.end_for(pending, why);
                        break;
                    }
                    Next::Nothing => break,
                },
            };
            let is_complete = matches!(outcome, Outcome::Completed(_));
            drop(pending.sleep);
            self.finish(pending.condition, outcome);
            return is_complete;
        }
        false
    }

    fn end_for(&self, Pending { condition, sleep }: Pending<F>, why: WatchError) {
        let outcome = if why == WatchError::Expired { Outcome::Due(sleep) } else { Outcome::Unmet(why) };
        self.finish(condition, outcome);
    }

    /// By the thread that has the condition.
    fn finish(&self, condition: F, outcome: Outcome<T>) {
        self.lists.remove(&self.places);
        contained(move || drop(condition));
        self.race.end(outcome);
    }

    fn end_untried(&self, why: WatchError) -> bool {
        let pending = self.race.take(Some(why), false);
        pending.map(|pending| self.end_for(pending, why)).is_some()
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// What checks and cancels do with an operation that they find in a list.
impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self) -> bool {
        let pending = self.race.take(None, Trying::is(self.address()));
        pending.is_some_and(|pending| self.run(pending))
    }

    fn check_in_task(&self) -> bool {
        self.race.ask_task(Trying::is(self.address()))
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
            self.end_for(pending, WatchError::Cancelled);
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
                runtime.spawn(last_try);
            }
        }
    }
}

/// Tries a condition a last time. Dropped before that, by a runtime that ends, it ends the operation untried.
struct LastTry<K, F: FnMut() -> Option<T>, T>(Arc<Operation<K, F, T>>);

impl<K, F: FnMut() -> Option<T>, T> Future for LastTry<K, F, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pending) = self.0.race.take(Some(WatchError::Expired), false) {
            self.0.run(pending);
        }
        Poll::Ready(())
    }
}

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(WatchError::Expired);
    }
}

/// Which operation this thread is trying, by its address, so that a condition that checks its own key is told apart. Where
/// a condition checks others, the innermost.
struct Trying {
    before: usize,
}

thread_local!(static TRYING: Cell<usize> = const { Cell::new(0) });

impl Trying {
    fn begin(operation: usize) -> Self {
        Self { before: TRYING.replace(operation) }
    }

    fn is(operation: usize) -> bool {
        TRYING.get() == operation
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        TRYING.set(self.before);
    }
}
