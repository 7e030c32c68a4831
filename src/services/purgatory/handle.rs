//! The handle, and what makes and counts operations.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::WatchError;
use super::lists::Lists;
use super::operation::{Operation, Watched};
use super::watch::Watch;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;

/// Operations that wait for a condition under keys, from [`TimingWheel::purgatory`]; what it is for is told in
/// [`purgatory`](crate::purgatory).
///
/// Cloning is cheap, and clones are the same purgatory. The lists of its keys are spread over shards, so that threads
/// which use different keys hardly meet. Once its last handle is gone nobody can check: what is watched waits for its
/// deadline.
///
/// # Cost
/// An operation that is complete at once allocates nothing and touches neither lists nor wheel. One that is watched
/// takes three blocks of memory and its timer; it is added to the list of each key, and taken out when it ends, in
/// logarithmic time. A check tries every operation under its key, so choose keys that few wait for.
///
/// The idea, and the verbs, are those of Kafka's `DelayedOperationPurgatory`.
pub struct Purgatory<K> {
    wheel: TimingWheel,
    pub(super) lists: Arc<Lists<K>>,
}

impl<K> Purgatory<K> {
    pub(super) fn new(wheel: TimingWheel) -> Self {
        Self { wheel, lists: Arc::new(Lists::new()) }
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> Purgatory<K> {
    /// Tries `condition` at once, and if it does not hold, watches the operation under `keys` for at most `delay` from
    /// now.
    ///
    /// The condition returns what the operation completes with, or `None` as long as it does not hold. It is tried
    /// again when the operation is in its lists, so that no check in between is missed, at each check, and when the
    /// deadline has come. Once it has returned something it is dropped.
    ///
    /// A key that is named twice counts once. With no key it can only be found to hold at the deadline. With a `delay`
    /// of more than [583 years](crate::Sleep::deadline) it never expires.
    ///
    /// # Precision
    /// As [`sleep`](TimingWheel::sleep). If the condition is being tried when the deadline comes, that is waited for.
    ///
    /// # Cancel safety
    /// The operation is watched until the future is ready or dropped; that takes it out of the lists, and drops its
    /// condition and the timer. If its condition is just being tried elsewhere, that ends first. What the condition has
    /// returned by then is dropped, or goes where [`Watch::give_back`] says.
    ///
    /// # Errors
    /// [`WatchError`] tells why the operation did not complete.
    ///
    /// # Panics
    /// If `condition` panics in this call, or while the keys are counted, hashed and compared. If it panics later, in a
    /// check, then who awaits the future gets the panic, and the check goes on with other operations.
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
    pub fn watch<T, F>(&self, keys: impl IntoIterator<Item = K>, delay: Duration, condition: F) -> Watch<K, T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        self.watch_by(keys, condition, || self.wheel.sleep(delay))
    }

    /// As [`watch`](Self::watch), until `deadline` at the latest.
    pub fn watch_until<T, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        deadline: Instant,
        condition: F,
    ) -> Watch<K, T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        self.watch_by(keys, condition, || self.wheel.sleep_until(deadline))
    }

    fn watch_by<T, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut condition: F,
        timer: impl FnOnce() -> Sleep,
    ) -> Watch<K, T>
    where
        T: Send + 'static,
        F: FnMut() -> Option<T> + Send + 'static,
    {
        let timer = timer();
        if let Some(output) = condition() {
            return Watch::completed(output);
        }
        let operation = Arc::new(Operation::new(self.lists.places(keys)));
        let reference: Arc<dyn Watched<K>> = operation.clone();
        if !self.lists.add(&reference) {
            // Its condition is here, so it ends when that does not hold.
            operation.end_untried(&self.lists, WatchError::Cancelled);
        }
        operation.run(Box::new(condition), &self.lists);
        Watch::watched(operation, self.lists.clone(), timer)
    }
}

impl<K> Purgatory<K> {
    /// How many places in lists are taken: of each pending operation one for each of its keys, or one if it has none.
    ///
    /// Exact when nothing happens meanwhile. Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.lists.watched()
    }

    /// How many operations are pending: neither complete nor expired, cancelled or dropped.
    ///
    /// Exact when nothing happens meanwhile; one whose deadline has come counts until its future is polled. Locks each
    /// shard for a moment, one after the other.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.lists.delayed()
    }
}

impl<K> Clone for Purgatory<K> {
    fn clone(&self) -> Self {
        Self { wheel: self.wheel.clone(), lists: self.lists.clone() }
    }
}

impl<K> fmt::Debug for Purgatory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wheel, lists: _ } = self;
        f.debug_struct("Purgatory")
            .field("wheel", wheel)
            .field("watched", &self.watched())
            .field("delayed", &self.delayed())
            .finish_non_exhaustive()
    }
}
