//! The handle, and what completes and ends operations.

use std::fmt;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use equivalent::Equivalent;
use futures::task::waker_ref;
use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

use crate::error::WatchError;
use crate::lists::{Listed, Lists};
use crate::operation::Operation;
use crate::watch::{State, Watch, told_by};

/// Operations that wait for a condition under keys, with their deadlines on a wheel. The [crate's
/// page](crate) tells what it is for. A purgatory may hold operations of different kinds: each has its own condition and its
/// own type of output.
///
/// A key is found by any borrowed form of it, as in a `HashMap`, and by any type that is [`Equivalent`] to it and hashes as it
/// does.
///
/// Cloning is cheap, and clones are the same purgatory. The lists of its keys are spread over shards, so that threads
/// which use different keys seldom meet. Once the last handle is gone nobody can check: operations then wait for their
/// deadlines.
///
/// # Cost
/// An operation that is complete at once allocates nothing and touches neither lists nor wheel. Any other takes one block
/// of memory, or two if it has more than one key, and a timer. It joins the list of each key, and leaves it when it
/// ends, without a look at other operations of the list. A check tries every operation under its key, so choose keys that
/// few wait for.
///
/// The idea, and the verbs, are those of Kafka's `DelayedOperationPurgatory`.
pub struct Purgatory<K> {
    wheel: TimingWheel,
    lists: Arc<Lists<K>>,
    tolerance: Option<Duration>,
}

impl<K> Purgatory<K> {
    /// A purgatory whose operations have their deadlines on this wheel.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// A write that is acknowledged when a follower has it:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::Purgatory;
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new());
    /// let replicated = Arc::new(AtomicU64::new(0));
    ///
    /// let seen = replicated.clone();
    /// let acknowledged = purgatory.watch(["orders-0"], Duration::from_secs(30), move || {
    ///     Some(seen.load(Ordering::Relaxed)).filter(|&offset| offset >= 7)
    /// });
    ///
    /// // The follower fetches.
    /// replicated.store(9, Ordering::Relaxed);
    /// assert_eq!(purgatory.check("orders-0"), 1);
    ///
    /// assert_eq!(acknowledged.await, Ok(9));
    /// # }
    /// ```
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        Self { wheel: wheel.clone(), lists: Arc::new(Lists::new()), tolerance: None }
    }

    /// Lets deadlines be late by less than `tolerance`, so that very many operations cost less: see
    /// [`Sleep::with_tolerance`].
    ///
    /// This holds for what this handle and later clones of it watch from now on. [`Watch::deadline`] tells the instant to
    /// which a deadline was rounded up.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::{Purgatory, WatchError};
    /// use tokio::time::Instant;
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new()).with_tolerance(Duration::from_secs(1));
    /// let (start, minute) = (Instant::now(), Duration::from_secs(60));
    /// let never = purgatory.watch(["key"], minute, || None::<()>);
    /// assert_eq!(never.await, Err(WatchError::Expired));
    /// assert!((minute..minute + Duration::from_secs(1)).contains(&start.elapsed()));
    /// # }
    /// ```
    #[must_use = "this handle has the tolerance, and not those that it was cloned from"]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// How many places in lists are taken: for each pending operation one for each of its keys, or one if it has none.
    ///
    /// Exact when nothing happens meanwhile. Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.lists.counts().0
    }

    /// How many operations are pending: neither complete nor expired, cancelled or dropped.
    ///
    /// Exact when nothing happens meanwhile. Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.lists.counts().1
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> Purgatory<K> {
    /// Tries `condition` at once, and if it does not hold, watches the operation under `keys` for at most `delay` from
    /// now.
    ///
    /// The condition returns what the operation completes with, or `None` as long as it does not hold. It is tried
    /// again at each check of a key, and when the deadline has come. It is also tried again as soon as the operation is
    /// in its lists, so that a check just before that is not missed. Once it has returned `Some`, it is dropped.
    ///
    /// A key that is named twice counts once. Without a key the condition is tried again only at the deadline. With a
    /// `delay` of more than [292 years](timingwheel::Sleep::deadline) the operation never expires.
    ///
    /// At the deadline a task of its own, on the wheel's runtime, tries the condition a last time. So an operation expires,
    /// and leaves its lists, even if nobody polls it.
    ///
    /// # Precision
    /// As [`sleep`](TimingWheel::sleep), and then that task has to be scheduled. If a thread is trying the condition when
    /// the deadline comes, the operation waits for that.
    ///
    /// # Cancel safety
    /// The operation is watched until the future is ready or dropped. Dropping the future takes the operation out of
    /// the lists, and drops its condition and its timer. If another thread is trying the condition just then, that try
    /// ends first. If that try completes the operation, its output is dropped, or goes where [`Watch::give_back`] says.
    /// The block of memory, with the keys, may stay for up to a second, as that of a dropped
    /// [`sleep`](TimingWheel::sleep).
    ///
    /// # Errors
    /// [`WatchError`] tells why the operation did not complete. A wheel is full if
    /// [`max_pending`](timingwheel::Builder::max_pending) timers are pending. On a full wheel an operation either
    /// completes at once, or fails at once with [`CouldNotRun`](crate::WatchError::CouldNotRun) and the wheel's error,
    /// because no condition waits without a deadline. The timer of an operation that has ended still counts until the
    /// future returns the outcome or is dropped. An operation whose deadline has passed needs no timer, and expires.
    ///
    /// # Panics
    /// If `condition` panics in this call, or if counting, hashing or comparing the keys panics. If `condition` panics
    /// later, in a check, the task that awaits the future gets the panic, and the check goes on with other operations.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::{Purgatory, WatchError};
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new());
    /// let at_once = purgatory.watch(["a", "b"], Duration::ZERO, || Some("holds"));
    /// assert_eq!(at_once.await, Ok("holds"));
    ///
    /// let never = purgatory.watch(["a", "b"], Duration::from_secs(1), || None::<()>);
    /// assert_eq!((purgatory.watched(), purgatory.delayed()), (2, 1));
    /// assert_eq!(never.await, Err(WatchError::Expired));
    /// assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
    /// # }
    /// ```
    pub fn watch<T: Send + 'static>(
        &self,
        keys: impl IntoIterator<Item = K>,
        delay: Duration,
        condition: impl FnMut() -> Option<T> + Send + 'static,
    ) -> Watch<T> {
        self.watch_by(keys, self.wheel.sleep(delay), condition)
    }

    /// As [`watch`](Self::watch), until `deadline` at the latest.
    pub fn watch_until<T: Send + 'static>(
        &self,
        keys: impl IntoIterator<Item = K>,
        deadline: Instant,
        condition: impl FnMut() -> Option<T> + Send + 'static,
    ) -> Watch<T> {
        self.watch_by(keys, self.wheel.sleep_until(deadline), condition)
    }

    fn watch_by<T: Send + 'static>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut sleep: Sleep,
        mut condition: impl FnMut() -> Option<T> + Send + 'static,
    ) -> Watch<T> {
        if let Some(tolerance) = self.tolerance {
            sleep = sleep.with_tolerance(tolerance);
        }
        if let Some(output) = condition() {
            return Watch::new(State::Ended(Some(Ok(output))));
        }
        let places = self.lists.places(keys);
        let operation = Arc::new(Operation::new(places, self.wheel.runtime_id()));
        let arm = || sleep.poll_unconstrained(&mut Context::from_waker(&waker_ref(&operation)));
        let end = match operation.places().add(&operation).then(arm) {
            Some(Poll::Pending) => None,
            Some(Poll::Ready(Ok(()))) => Some(WatchError::Expired),
            Some(Poll::Ready(Err(error))) => Some(WatchError::CouldNotRun(error)),
            None => Some(WatchError::Cancelled),
        };
        // A check may have come between the first try and the lists. Nobody else asks for the outcome yet.
        Watch::new(match operation.run(condition, end).map(|outcome| told_by(&mut sleep, outcome)) {
            None => State::Watched { operation, sleep, is_polled: false },
            Some(outcome) => State::Ended(Some(outcome.unwrap_or_else(|panic| resume_unwind(panic)))),
        })
    }

    /// Tries the operations that are watched under `key`, in the order in which they were watched, and returns how many
    /// of them this call completed.
    ///
    /// Call this after you have changed something that the conditions look at: each is tried after the change. If
    /// another thread is trying an operation, that thread tries it once more, and this call does not count it. After it has
    /// tried again 16 times, because other threads check all the time, the thread leaves the operation to its task, as
    /// [`check_in_tasks`](Self::check_in_tasks) does, or ends it if it was watched too late or was refused. Operations that
    /// are added meanwhile try themselves.
    ///
    /// A condition may check, its own key too. Within 16 conditions that check, a check leaves the operations to their
    /// tasks. An operation that nobody has polled is then tried at its first poll. Each check looks at all operations under
    /// its key. So if each of n conditions checks the key under which all n wait, this takes n²/2 looks. Where many wait
    /// under one key, let the task check after its `.await`, and not the condition.
    ///
    /// # Panics
    /// Only if hashing or comparing keys does. A condition that panics is dropped, and whoever awaits the operation gets
    /// the panic. A waker that panics harms nobody else.
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
    /// let take = || {
    ///     let queue = queue.clone();
    ///     move || queue.lock().unwrap().pop()
    /// };
    /// let [first, second] = [(); 2].map(|()| purgatory.watch(["queue"], Duration::from_secs(9), take()));
    ///
    /// queue.lock().unwrap().push("message");
    /// assert_eq!(purgatory.check("queue"), 1);
    /// assert_eq!(first.await, Ok("message"));
    /// assert!(second.await.is_err());
    /// # }
    /// ```
    pub fn check(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> usize {
        self.lists.count_under(key, |operation| operation.check(None))
    }

    /// Has the operations that are watched under `key` tried in the tasks that await them, and returns how many they are.
    ///
    /// No condition runs in this call. So unlike [`check`](Self::check) it may be called by a thread that holds a lock
    /// which conditions take. It wakes all these tasks, also those whose conditions do not hold. An operation that nobody
    /// has polled yet is tried at the first poll, or at its deadline.
    ///
    /// # Panics
    /// As [`check`](Self::check).
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
    /// let group = Arc::new(Mutex::new(0));
    /// let members = group.clone();
    /// let joined = purgatory.watch(["group"], Duration::from_secs(9), move || {
    ///     Some(*members.lock().unwrap()).filter(|&members| members == 3)
    /// });
    ///
    /// let mut members = group.lock().unwrap();
    /// *members = 3;
    /// assert_eq!(purgatory.check_in_tasks("group"), 1);
    /// drop(members);
    /// assert_eq!(joined.await, Ok(3));
    /// # }
    /// ```
    pub fn check_in_tasks(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> usize {
        self.lists.count_under(key, |operation| operation.ask())
    }

    /// Cancels the operations that are watched under `key`, whatever other keys they have, and returns how many this call
    /// cancelled. Their conditions are not tried again.
    ///
    /// If another thread is trying a condition, the operation completes if the condition holds, and is cancelled
    /// otherwise. It is not counted.
    ///
    /// # Panics
    /// As [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::{Purgatory, WatchError};
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new());
    /// let fetch = purgatory.watch([3, 4], Duration::from_secs(9), || None::<()>);
    /// assert_eq!(purgatory.cancel(&4), 1);
    /// assert_eq!(fetch.await, Err(WatchError::Cancelled));
    /// # }
    /// ```
    pub fn cancel(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> usize {
        self.lists.count_under(key, |operation| operation.end(WatchError::Cancelled))
    }

    /// Cancels all operations, and returns how many this call cancelled, as [`cancel`](Self::cancel) does. An operation
    /// that is watched later is tried, and cancelled if its condition does not hold. The wheel goes on.
    ///
    /// The end of the wheel ends the operations too, as [the crate's page](crate) tells.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_purgatory::{Purgatory, WatchError};
    ///
    /// let purgatory = Purgatory::new(&TimingWheel::new());
    /// let watch = |key| purgatory.watch([key], Duration::from_secs(9), || None::<()>);
    /// let pending = [watch(1), watch(2)];
    /// assert_eq!(purgatory.shutdown(), 2);
    /// assert_eq!(watch(3).await, Err(WatchError::Cancelled));
    /// # drop(pending);
    /// # }
    /// ```
    pub fn shutdown(&self) -> usize {
        self.lists.close(WatchError::Cancelled)
    }

    /// How many pending operations are watched under `key`.
    ///
    /// Exact when nothing happens meanwhile. Looks at each of them.
    ///
    /// # Panics
    /// Only if hashing or comparing keys does.
    #[must_use]
    pub fn watched_under(&self, key: &(impl Hash + Equivalent<K> + ?Sized)) -> usize {
        self.lists.count_under(key, |_| true)
    }
}

impl<K> Clone for Purgatory<K> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), lists: self.lists.clone(), tolerance: self.tolerance }
    }
}

impl<K> fmt::Debug for Purgatory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watched, delayed) = self.lists.counts();
        f.debug_struct("Purgatory")
            .field("watched", &watched)
            .field("delayed", &delayed)
            .finish_non_exhaustive()
    }
}
