//! The future of a watched operation.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::FusedFuture;
use tokio::task::coop;
use tokio::time::Instant;

use super::error::WatchError;
use super::lists::Lists;
use super::operation::{Operation, Outcome};
use crate::sleep::Sleep;

/// The future of [`Purgatory::watch`](crate::Purgatory::watch): what its operation completes with, or why it did not.
///
/// The operation is watched as long as this is there, polled or not; but only a poll finds that its deadline has come.
/// Dropping it takes the operation out of every list and its timer out of the wheel. It is `Unpin`, and may be polled
/// on any thread, in any runtime or executor.
///
/// # Panics
/// If it is polled again after it was ready. If its condition panics: that poll does too, or the one that comes after
/// the check.
#[must_use = "dropping it withdraws the operation"]
pub struct Watch<K, T> {
    state: State<K, T>,
}

enum State<K, T> {
    /// Before anybody polled.
    Ended(Result<T, WatchError>),
    Watched {
        operation: Arc<Operation<K, T>>,
        lists: Arc<Lists<K>>,
        timer: Sleep,
    },
    /// The outcome was returned.
    Returned,
}

/// Nothing points into it.
impl<K, T> Unpin for Watch<K, T> {}

impl<K, T> Watch<K, T> {
    pub(super) const fn completed(output: T) -> Self {
        Self { state: State::Ended(Ok(output)) }
    }
}

impl<K: Send + Sync, T: Send> Watch<K, T> {
    /// An operation that was tried once it was in its lists.
    pub(super) fn watched(operation: Arc<Operation<K, T>>, lists: Arc<Lists<K>>, timer: Sleep) -> Self {
        let state = match operation.take_outcome() {
            Some(outcome) => State::Ended(result(outcome)),
            None => State::Watched { operation, lists, timer },
        };
        Self { state }
    }

    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, WatchError>> {
        let State::Watched { operation, lists, timer } = &mut self.state else {
            return match std::mem::replace(&mut self.state, State::Returned) {
                State::Ended(result) => Poll::Ready(result),
                _ => panic!("a `Watch` was polled after it was ready"),
            };
        };
        let mut outcome = operation.poll(cx.waker(), lists);
        if outcome.is_none() {
            let why = match ready!(timer.poll_elapsed(cx)) {
                Ok(()) => WatchError::Expired,
                Err(error) => WatchError::CouldNotRun(error),
            };
            outcome = operation.try_last(lists, why);
        }
        let Some(outcome) = outcome else { return Poll::Pending };
        self.state = State::Returned;
        Poll::Ready(result(outcome))
    }
}

/// # Panics
/// With the panic of the condition.
fn result<T>(outcome: Outcome<T>) -> Result<T, WatchError> {
    match outcome {
        Outcome::Completed(output) => Ok(output),
        Outcome::Unmet(why) => Err(why),
        Outcome::Panicked(panic) => resume_unwind(panic),
    }
}

impl<K, T> Watch<K, T> {
    /// When the operation expires; `None` if it has ended before it needed a deadline, or if this has returned.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Watched { timer, .. } => Some(timer.deadline()),
            State::Ended(_) | State::Returned => None,
        }
    }
}

impl<K: Send + Sync, T: Send> Future for Watch<K, T> {
    type Output = Result<T, WatchError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A task that only ever finds its operations ended has to let others run.
        let budget = ready!(coop::poll_proceed(cx));
        let result = ready!(self.get_mut().poll_result(cx));
        budget.made_progress();
        Poll::Ready(result)
    }
}

impl<K: Send + Sync, T: Send> FusedFuture for Watch<K, T> {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Returned)
    }
}

impl<K, T> Drop for Watch<K, T> {
    fn drop(&mut self) {
        if let State::Watched { operation, lists, timer: _ } = &self.state {
            operation.withdraw(lists);
        }
    }
}

impl<K, T> fmt::Debug for Watch<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Ended(_) => "ended",
            State::Watched { .. } => "watched",
            State::Returned => "returned",
        };
        f.debug_struct("Watch").field("state", &state).field("deadline", &self.deadline()).finish()
    }
}
