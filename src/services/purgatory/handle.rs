//! The handle, and what makes operations.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::deadline::{Deadline, When};
use super::lists::Lists;
use super::operation::Operation;
use super::race::Tried;
use super::watch::{Watch, result};
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::tolerance::Tolerance;

/// Operations that wait for a condition under keys, from [`TimingWheel::purgatory`]. The module
/// [`purgatory`](crate::purgatory) tells what it is for.
///
/// Cloning is cheap, and clones are the same purgatory. The lists of its keys are spread over shards, so that threads
/// which use different keys seldom meet. Once the last handle is gone nobody can check: operations then wait for their
/// deadlines.
///
/// # Cost
/// An operation that is complete at once allocates nothing and touches neither lists nor wheel. Any other takes one block
/// of memory, or three if it has more than two keys, and a timer. It joins the list of each key, and leaves it when it
/// ends, without a look at other operations of the list. A check tries every operation under its key, so choose keys that
/// few wait for.
///
/// The idea, and the verbs, are those of Kafka's `DelayedOperationPurgatory`.
pub struct Purgatory<K> {
    wheel: TimingWheel,
    pub(super) lists: Arc<Lists<K>>,
    tolerance: Option<Tolerance>,
}

impl<K> Purgatory<K> {
    pub(super) fn new(wheel: TimingWheel) -> Self {
        Self { wheel, lists: Arc::new(Lists::new()), tolerance: None }
    }

    /// Lets deadlines be late, so that very many operations cost less: see [`Tolerance`]. A share is a part of the
    /// delay.
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
    /// use timingwheel::{TimingWheel, Tolerance, purgatory::WatchError};
    /// use tokio::time::Instant;
    ///
    /// let purgatory = TimingWheel::new().purgatory().with_tolerance(Tolerance::time(Duration::from_secs(1)));
    /// let (start, minute) = (Instant::now(), Duration::from_secs(60));
    /// let never = purgatory.watch(["key"], minute, || None::<()>);
    /// assert_eq!(never.await, Err(WatchError::Expired));
    /// assert!((minute..minute + Duration::from_secs(1)).contains(&start.elapsed()));
    /// # }
    /// ```
    #[must_use = "this handle has the tolerance, and not those that it was cloned from"]
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = Some(tolerance);
        self
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> Purgatory<K> {
    /// Tries `condition` at once, and if it does not hold, watches the operation under `keys` for at most `delay` from
    /// now.
    ///
    /// The condition returns what the operation completes with, or `None` as long as it does not hold. It is tried again
    /// once the operation is in its lists, so that no check in between is missed, at each check, and when the deadline has
    /// come. Once it has returned something it is dropped.
    ///
    /// A key that is named twice counts once. Without a key the condition is tried again only at the deadline. With a
    /// `delay` of more than [583 years](crate::Sleep::deadline) the operation never expires.
    ///
    /// An operation that nobody polls expires all the same, and leaves its lists.
    ///
    /// # Precision
    /// As [`sleep`](TimingWheel::sleep). If a thread is trying the condition when the deadline comes, the operation waits
    /// for that.
    ///
    /// # Cancel safety
    /// The operation is watched until the future is ready or dropped. Dropping the future takes the operation out of
    /// the lists, and drops its condition and its timer. If another thread is trying the condition just then, that try
    /// ends first. If that try completes the operation, its output is dropped, or goes where [`Watch::give_back`] says.
    /// The block of memory, with the keys, may stay for up to a second, as that of a dropped
    /// [`sleep`](TimingWheel::sleep).
    ///
    /// # Errors
    /// [`WatchError`](super::WatchError) tells why the operation did not complete.
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
    /// use timingwheel::{TimingWheel, purgatory::WatchError};
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let at_once = purgatory.watch(["a", "b"], Duration::ZERO, || Some("holds"));
    /// assert_eq!(at_once.await, Ok("holds"));
    ///
    /// let never = purgatory.watch(["a", "b"], Duration::from_secs(1), || None::<()>);
    /// assert_eq!((purgatory.watched(), purgatory.delayed()), (2, 1));
    /// assert_eq!(never.await, Err(WatchError::Expired));
    /// assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
    /// # }
    /// ```
    pub fn watch<T, F>(&self, keys: impl IntoIterator<Item = K>, delay: Duration, condition: F) -> Watch<T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        self.watch_by(keys, When::After(delay), condition)
    }

    /// As [`watch`](Self::watch), until `deadline` at the latest.
    pub fn watch_until<T, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        deadline: Instant,
        condition: F,
    ) -> Watch<T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        self.watch_by(keys, When::At(deadline), condition)
    }

    fn watch_by<T, F>(&self, keys: impl IntoIterator<Item = K>, when: When, mut condition: F) -> Watch<T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        let (deadline, arming) = Deadline::new(&self.wheel, when, self.tolerance);
        if let Some(output) = condition() {
            return Watch::ended(Ok(output));
        }
        let operation = Arc::new(Operation::new(self.lists.clone(), self.lists.places(keys), deadline));
        match operation.start(condition, arming) {
            Tried::Waits => Watch::watched(operation),
            Tried::Completed | Tried::Ended => {
                let outcome = operation.take_outcome().expect("nobody else has the future");
                Watch::ended(result(outcome))
            }
        }
    }
}

impl<K> Clone for Purgatory<K> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), lists: self.lists.clone(), tolerance: self.tolerance }
    }
}

impl<K> fmt::Debug for Purgatory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wheel, lists, tolerance } = self;
        f.debug_struct("Purgatory")
            .field("wheel", wheel)
            .field("tolerance", tolerance)
            .field("watched", &lists.watched())
            .field("delayed", &lists.delayed())
            .finish()
    }
}
