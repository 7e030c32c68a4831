//! What a purgatory tells of its operations.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use super::handle::Purgatory;
use crate::platform::catch_panic::contained;

impl<K> Purgatory<K> {
    /// How many places in lists are taken: for each pending operation one for each of its keys, or one if it has none.
    ///
    /// Exact when nothing happens meanwhile. Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.lists.watched()
    }

    /// How many operations are pending: neither complete nor expired, cancelled or dropped.
    ///
    /// Exact when nothing happens meanwhile. An operation that was polled before its deadline counts until it is polled
    /// after it. Locks each shard for a moment, one after the other.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.lists.delayed()
    }
}

impl<K: Eq + Hash + Send + Sync + 'static> Purgatory<K> {
    /// How many pending operations are watched under `key`.
    ///
    /// Exact when nothing happens meanwhile. Looks at each of them.
    ///
    /// # Panics
    /// Only if hashing or comparing keys does.
    #[must_use]
    pub fn watched_under<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let mut count = 0;
        self.lists.each_under(key, |operation| {
            count += 1;
            contained(move || drop(operation));
        });
        count
    }

    /// All keys under which operations are pending, and how many under each.
    ///
    /// Exact when nothing happens meanwhile. Looks at every operation; locks are held for a few of them at a time.
    ///
    /// # Panics
    /// Only if cloning, hashing or comparing keys does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::{collections::HashMap, time::Duration};
    /// use timingwheel::TimingWheel;
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let _watches = [["a", "b"], ["b", "c"]].map(|keys| purgatory.watch(keys, day, || None::<()>));
    /// assert_eq!(purgatory.keys(), HashMap::from([("a", 1), ("b", 2), ("c", 1)]));
    /// assert_eq!(purgatory.watched_under("b"), 2);
    /// # }
    /// ```
    #[must_use]
    pub fn keys(&self) -> HashMap<K, usize>
    where
        K: Clone,
    {
        let mut keys = HashMap::new();
        self.lists.each_key(|key| match keys.get_mut(key) {
            Some(count) => *count += 1,
            None => _ = keys.insert(key.clone(), 1),
        });
        keys
    }
}
