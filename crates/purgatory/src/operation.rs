//! An operation as its lists and the wheel call it.

use std::sync::Arc;

use futures::task::ArcWake;
use tokio::runtime::Handle;

use crate::error::WatchError;
use crate::lists::{Entry, Listed, Places};
use crate::race::{Leave, Race};

/// One block of memory for all that an operation is, but its timer, which the future has. The lists, the future and the
/// wheel have references to it: it is the waker of its timer.
pub(crate) type Operation<K, F, T> = Race<Entry<K>, F, T>;

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.lists.places
    }

    fn check(&self) -> bool {
        self.attempt(None)
    }

    fn check_in_task(&self) -> bool {
        self.ask_task()
    }

    fn cancel(&self) -> bool {
        self.end_untried(WatchError::Cancelled)
    }
}

/// By the wheel: the deadline has come, or the wheel has ended.
///
/// The task that awaits an operation tries its condition a last time. Where no task waits to be woken, one is spawned for that.
/// So the operation leaves the lists all the same, and no condition of a user's runs on the driver.
impl<K, F, T> ArcWake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake_by_ref(operation: &Arc<Self>) {
        if operation.expire() {
            let last_try = LastTry(operation.clone());
            // Whoever ends the wheel may be outside every runtime: then the operation ends as this is dropped.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(async move { last_try.0.attempt(Some(WatchError::Expired)) });
            }
        }
    }
}

/// Ends an operation that is due and was not tried, if a runtime that ends drops this before.
struct LastTry<L: Leave, F: FnMut() -> Option<T>, T>(Arc<Race<L, F, T>>);

impl<L: Leave, F: FnMut() -> Option<T>, T> Drop for LastTry<L, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(WatchError::Expired);
    }
}
