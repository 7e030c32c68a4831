//! How an operation learns of its deadline, and of the end of its wheel: the wheel's entry has a reference to the
//! operation as its waker.
//!
//! The condition of an operation that has been polled is tried a last time by its task. Where nobody has polled, a task is
//! spawned for that, so that the operation leaves the lists all the same, and none of a user's conditions runs on the
//! driver.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use tokio::runtime::Handle;

use super::operation::Operation;
use super::stage::{End, Stage, wake_task};

impl<K, F, T> Wake for Operation<K, F, T>
where
    K: Send + Sync + 'static,
    F: FnMut() -> Option<T> + Send + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock();
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
                // The driver runs on the wheel's runtime. Whoever ends the wheel may be anywhere: then the operation ends
                // as this is dropped.
                if !last_try.0.deadline.wheel_has_ended()
                    && let Ok(runtime) = Handle::try_current()
                {
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
        self.0.try_last();
        Poll::Ready(())
    }
}

impl<K, F: FnMut() -> Option<T>, T> Drop for LastTry<K, F, T> {
    fn drop(&mut self) {
        self.0.end_untried(End::Due);
    }
}
