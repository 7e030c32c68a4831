//! One operation: in its lists and on the wheel, and at its end out of its lists.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::task::{ArcWake, waker_ref};
use timingwheel::Sleep;
use tokio::runtime::Handle;

use crate::error::WatchError;
use crate::lists::{Listed, Lists, Places};
use crate::race::{Outcome, Race};
use crate::watch::GiveBack;

/// One block of memory for all that an operation is, but its timer, which the future has. The lists, the future and the
/// wheel have references to it: it is the waker of its timer.
pub(crate) struct Operation<K, F, T> {
    lists: Arc<Lists<K>>,
    places: Places<K>,
    race: Race<F, T>,
}

impl<K, F: FnMut() -> Option<T>, T> Operation<K, F, T> {
    /// Adds an operation to its lists and to the wheel, and tries it once more.
    pub(crate) fn start(
        lists: &Arc<Lists<K>>,
        places: Places<K>,
        sleep: &mut Sleep,
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
        if let Some(why) = end {
            operation.race.end_after_try(why);
        }
        // Nobody has its future yet, so nobody else asks for the outcome.
        operation.race.run(condition, || operation.leave()).map_or(Ok(operation), Err)
    }

    fn leave(&self) {
        self.lists.remove(&self.places);
    }
}

/// The calls of checks and cancels, for an operation that they find in a list.
impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self) -> bool {
        self.race.attempt(None, || self.leave())
    }

    fn check_in_task(&self) -> bool {
        self.race.ask_task()
    }

    fn cancel(&self) -> bool {
        self.race.end_untried(WatchError::Cancelled, || self.leave())
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
}

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Awaited<T> for Operation<K, F, T> {
    fn poll(&self, waker: &Waker, is_first: bool) -> Option<Outcome<T>> {
        self.race.poll(waker, is_first, || self.leave())
    }

    fn withdraw(&self, heir: GiveBack<T>) {
        self.race.withdraw(heir, || self.leave());
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
                runtime.spawn(async move {
                    let operation = &last_try.0;
                    operation.race.attempt(Some(WatchError::Expired), || operation.leave());
                });
            }
        }
    }
}

/// Ends an operation that is due and was not tried, if a runtime that ends drops this before.
struct LastTry<K, F: FnMut() -> Option<T>, T>(Arc<Operation<K, F, T>>);

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.race.end_untried(WatchError::Expired, || self.0.leave());
    }
}
