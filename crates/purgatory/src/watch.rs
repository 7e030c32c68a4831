//! The future of a watched operation, and where its output goes when the future is gone.

use std::fmt;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use futures::future::FusedFuture;
use timingwheel::Sleep;
use tokio::task::coop;
use tokio::time::Instant;

use crate::contained;
use crate::error::WatchError;
use crate::operation::{Awaited, Outcome};

/// The future of [`Purgatory::watch`](crate::Purgatory::watch): what the operation completes with, or why it did not.
///
/// The operation is watched as long as its future is there, polled or not. Dropping the future takes the operation out of
/// every list. Its timer leaves the wheel when the future returns the outcome or is dropped. The future is `Unpin`, and may
/// be polled on any thread, in any runtime or executor.
///
/// # Cancel safety
/// A check may complete the operation before its future is polled. If the future is dropped in between, as by
/// `select!`, the output of the condition is dropped too. The output may be an item that the condition has taken from a
/// queue: use [`give_back`](Self::give_back) to put it back. Dropping `&mut watch` loses nothing.
///
/// # Panics
/// If it is polled again after it was ready. If the condition panics: in that poll, or in the next one after the check
/// that tried the condition.
#[must_use = "dropping it withdraws the operation"]
pub struct Watch<T> {
    state: State<T>,
    give_back: GiveBack<T>,
}

pub(crate) enum State<T> {
    Watched {
        operation: Arc<dyn Awaited<T>>,
        /// Its timer, whose waker is the operation.
        sleep: Sleep,
        is_polled: bool,
    },
    /// With the result until it is returned.
    Ended(Option<Result<T, WatchError>>),
}

/// Nothing points into it.
impl<T> Unpin for Watch<T> {}

/// Says why an operation expired: only its timer knows whether that was the deadline, or the end of the wheel.
pub(crate) fn told_by<T>(sleep: &mut Sleep, outcome: Outcome<T>) -> Outcome<T> {
    match outcome {
        Ok(Err(WatchError::Expired)) => {
            match sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(error)) => Ok(Err(WatchError::CouldNotRun(error))),
                _ => Ok(Err(WatchError::Expired)),
            }
        }
        outcome => outcome,
    }
}

impl<T> Watch<T> {
    pub(crate) const fn new(state: State<T>) -> Self {
        Self { state, give_back: None }
    }

    /// If this future is dropped before it returns the operation's output, `code` gets that output.
    ///
    /// `code` can put an item that the condition has taken out of a queue back into the queue, and check the queue's
    /// key for operations that still wait. `code` is called at most once, by the thread that drops the future. If
    /// another thread is trying the condition at that moment, that thread calls `code` if the condition holds. No lock
    /// of the purgatory is held. A second call of this method replaces the code. If `code` panics, the panic hook
    /// reports it, and nothing else happens.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::Purgatory;
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new());
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
        // Nobody ever waits for the lock. It makes code that is only `Send` also `Sync`, so that futures can be shared.
        let code = Mutex::new(code);
        let code = |output| (code.into_inner().unwrap_or_else(PoisonError::into_inner))(output);
        self.give_back = Some(Box::new(code));
        self
    }

    /// When the operation expires, unless it ends before. `None` if it ended as it was watched, and once the future was
    /// ready.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Watched { sleep, .. } => Some(sleep.deadline()),
            State::Ended(_) => None,
        }
    }
}

impl<T> Future for Watch<T> {
    type Output = Result<T, WatchError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A task that only ever finds its operations ended has to let others run.
        let budget = ready!(coop::poll_proceed(cx));
        let this = self.get_mut();
        let outcome = match &mut this.state {
            State::Watched { operation, sleep, is_polled } => {
                let is_first = !mem::replace(is_polled, true);
                let Some(outcome) = operation.poll(cx.waker(), is_first) else { return Poll::Pending };
                told_by(sleep, outcome)
            }
            State::Ended(result) => Ok(result.take().expect("a `Watch` was polled after it was ready")),
        };
        // This may drop keys, and their panic must not take the output along.
        contained(|| this.state = State::Ended(None));
        budget.made_progress();
        Poll::Ready(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<T> FusedFuture for Watch<T> {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Ended(None))
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        let give_back = self.give_back.take();
        match mem::replace(&mut self.state, State::Ended(None)) {
            State::Watched { operation, sleep, .. } => {
                // Before the code runs, which may need the timer's place in the wheel.
                drop(sleep);
                operation.withdraw(give_back);
                contained(move || drop(operation));
            }
            State::Ended(result) => give(result.map(Ok), give_back),
        }
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Watched { .. } => "watched",
            State::Ended(Some(_)) => "ended",
            State::Ended(None) => "returned",
        };
        f.debug_struct("Watch").field("state", &state).field("deadline", &self.deadline()).finish()
    }
}

/// Where an output goes that its future has not taken; it is dropped where nobody has said.
pub(crate) type GiveBack<T> = Option<Box<dyn FnOnce(T) + Send + Sync>>;

/// The caller holds no lock. A panic of the user's code ends here.
pub(crate) fn give<T>(outcome: Option<Outcome<T>>, to: GiveBack<T>) {
    contained(move || {
        if let (Some(Ok(Ok(output))), Some(code)) = (outcome, to) {
            code(output);
        }
    });
}
