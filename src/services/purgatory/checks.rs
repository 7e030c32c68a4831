//! What completes and ends operations under a key.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use super::cancelled::Cancelled;
use super::error::WatchError;
use super::handle::Purgatory;
use super::listed::Listed;
use crate::platform::catch_panic::contained;

impl<K: Eq + Hash + Send + Sync + 'static> Purgatory<K> {
    /// Tries the operations that are watched under `key`, in the order in which they were watched, and returns how many
    /// of them this call completed.
    ///
    /// Call this after you have changed something that the conditions look at: each is tried after the change. If
    /// another thread is
    /// trying an operation, that thread tries it once more, and this call does not count it. After 16 tries in a row,
    /// because other threads check all the time, the thread leaves the operation to its task, as
    /// [`check_in_tasks`](Self::check_in_tasks) does. Operations that are added meanwhile try themselves.
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
    ///
    /// let purgatory = TimingWheel::new().purgatory();
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
    pub fn check<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let mut completed = 0;
        self.lists.each_under(key, |operation| {
            completed += usize::from(operation.check());
            contained(move || drop(operation));
        });
        completed
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
    ///
    /// let purgatory = TimingWheel::new().purgatory();
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
    pub fn check_in_tasks<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let mut told = 0;
        self.lists.each_under(key, |operation| {
            told += usize::from(operation.check_in_task());
            contained(move || drop(operation));
        });
        told
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
    /// use timingwheel::{TimingWheel, purgatory::WatchError};
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let fetch = purgatory.watch([3, 4], Duration::from_secs(9), || None::<()>);
    /// assert_eq!(purgatory.cancel(&4), 1);
    /// assert_eq!(fetch.await, Err(WatchError::Cancelled));
    /// # }
    /// ```
    pub fn cancel<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let mut cancelled = 0;
        self.lists.each_under(key, |operation| Self::cancel_one(operation, &mut cancelled));
        cancelled
    }

    /// As [`cancel`](Self::cancel), and returns what it has cancelled: the keys of each operation, the first to be
    /// watched first.
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
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let _fetch = purgatory.watch([("topic", 3), ("client", 7)], Duration::from_secs(9), || None::<()>);
    /// let cancelled = purgatory.cancel_and_list(&("topic", 3));
    /// let clients = cancelled[0].keys().filter(|key| key.0 == "client");
    /// assert_eq!(clients.collect::<Vec<_>>(), [&("client", 7)]);
    /// # }
    /// ```
    pub fn cancel_and_list<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Vec<Cancelled<K>>
    where
        K: Borrow<Q>,
    {
        let mut cancelled = Vec::new();
        self.lists.each_under(key, |operation| {
            if operation.end(WatchError::Cancelled) {
                cancelled.push(Cancelled::new(operation));
            } else {
                contained(move || drop(operation));
            }
        });
        cancelled
    }

    /// Cancels all operations, and returns how many this call cancelled, as [`cancel`](Self::cancel) does. An operation
    /// that is watched later is tried, and cancelled if its condition does not hold. The wheel goes on.
    ///
    /// The end of the wheel ends the operations too, and wakes their tasks.
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
    /// use timingwheel::{TimingWheel, purgatory::WatchError};
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let watch = |key| purgatory.watch([key], Duration::from_secs(9), || None::<()>);
    /// let pending = [watch(1), watch(2)];
    /// assert_eq!(purgatory.shutdown(), 2);
    /// assert_eq!(watch(3).await, Err(WatchError::Cancelled));
    /// # drop(pending);
    /// # }
    /// ```
    pub fn shutdown(&self) -> usize {
        let mut cancelled = 0;
        self.lists.close(|operation| Self::cancel_one(operation, &mut cancelled));
        cancelled
    }

    fn cancel_one(operation: Arc<dyn Listed<K>>, cancelled: &mut usize) {
        *cancelled += usize::from(operation.end(WatchError::Cancelled));
        contained(move || drop(operation));
    }
}
