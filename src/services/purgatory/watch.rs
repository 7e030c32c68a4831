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
use super::give_back::GiveBack;
use super::lists::Lists;
use super::operation::Operation;
use super::stage::Outcome;
use crate::timers::sleep::Sleep;

/// The future of [`Purgatory::watch`](crate::Purgatory::watch): what its operation completes with, or why it did not.
///
/// The operation is watched as long as this is there, polled or not; but only a poll finds that its deadline has come.
/// Dropping it takes the operation out of every list and its timer out of the wheel. It is `Unpin`, and may be polled
/// on any thread, in any runtime or executor.
///
/// # Cancel safety
/// A check may complete the operation before its future is polled. A future that is dropped in between, as by
/// `select!`, drops what the condition returned. Where that must not be lost, such as an item that the condition has
/// taken from a queue, say with [`give_back`](Self::give_back) where it goes. A wait by `&mut watch` that is dropped
/// loses nothing.
///
/// # Panics
/// If it is polled again after it was ready. If its condition panics: that poll does too, or the one that comes after
/// the check.
#[must_use = "dropping it withdraws the operation"]
pub struct Watch<K, T> {
    state: State<K, T>,
    give_back: Option<GiveBack<T>>,
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
        Self { state: State::Ended(Ok(output)), give_back: None }
    }
}

impl<K: Send + Sync, T: Send> Watch<K, T> {
    /// An operation that was tried once it was in its lists.
    pub(super) fn watched(operation: Arc<Operation<K, T>>, lists: Arc<Lists<K>>, timer: Sleep) -> Self {
        let state = match operation.take_outcome() {
            Some(outcome) => State::Ended(result(outcome)),
            None => State::Watched { operation, lists, timer },
        };
        Self { state, give_back: None }
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
            let why = match ready!(timer.poll_try_wait(cx)) {
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
    /// Has `code` take what the operation completes with, if this future is dropped before it returns that.
    ///
    /// So an item that the condition has taken out of a queue can be put back, and the queue's key be checked for those
    /// that still wait. `code` is called at most once: by whoever drops the future, or, if another thread is trying the
    /// condition then, by that thread, should it hold. No lock of the purgatory's is held. Called again, this replaces
    /// the code before. If `code` panics, the panic hook reports it, and nothing else happens.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let queue = Arc::new(Mutex::new(Vec::new()));
    /// let pop = {
    ///     let queue = queue.clone();
    ///     move || queue.lock().unwrap().pop()
    /// };
    /// let put_back = {
    ///     let (queue, purgatory) = (queue.clone(), purgatory.clone());
    ///     move |item| {
    ///         queue.lock().unwrap().push(item);
    ///         purgatory.check("queue");
    ///     }
    /// };
    /// let watch = purgatory.watch(["queue"], Duration::from_secs(9), pop).give_back(put_back);
    ///
    /// queue.lock().unwrap().push("item");
    /// assert_eq!(purgatory.check("queue"), 1);
    /// assert!(queue.lock().unwrap().is_empty(), "the condition has taken it");
    /// drop(watch);
    /// assert_eq!(*queue.lock().unwrap(), ["item"]);
    /// # }
    /// ```
    pub fn give_back(mut self, code: impl FnOnce(T) + Send + 'static) -> Self {
        self.give_back = Some(GiveBack::new(code));
        self
    }

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
        let give_back = self.give_back.take();
        match std::mem::replace(&mut self.state, State::Returned) {
            State::Watched { operation, lists, timer: _ } => operation.withdraw(&lists, give_back),
            State::Ended(Ok(output)) => {
                if let Some(give_back) = give_back {
                    give_back.give(Outcome::Completed(output));
                }
            }
            State::Ended(Err(_)) | State::Returned => {}
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
