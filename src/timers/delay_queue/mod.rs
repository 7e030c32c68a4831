//! `time::DelayQueue`: many items, each of which is handed out when its deadline comes.

mod deadlines;
mod due;
mod items;
mod key;
mod leftovers;
mod make;
mod memory;
#[cfg(test)]
mod model_tests;
mod poll;
mod timer;
mod wake_on_change;

use std::fmt;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use deadlines::Deadlines;
use items::Item;
use key::StaleKey;

pub use self::key::{Expired, Key};
use crate::timers::sleep::Sleep;
use crate::wheel::Nanos;

/// Items that are handed out when their deadlines come, for one task that polls it: as a stream, or by
/// [`poll_expired`](Self::poll_expired).
///
/// Items come in the order of their deadlines, and of those with the same deadline in the order of their insertion.
/// An item can be removed, or get another deadline, by the [`Key`] that its insertion returned, until it is handed
/// out. A key that has outlived its item finds nothing.
///
/// A queue uses one wheel: the one whose [`delay_queue`](crate::TimingWheel::delay_queue) made it, or else the wheel of
/// the runtime in which its first item is inserted. A queue of the first kind keeps its wheel for good. A queue of the
/// second kind chooses a wheel anew at the next insertion if its wheel has ended and the queue is empty. The queue has
/// one timer on its wheel, which is armed by a poll and moved when it has to be. The items are in the queue itself, so
/// only that timer takes a lock.
///
/// It holds at most [`MAX_LEN`](Self::MAX_LEN) items. Deadlines may lie in the past, and have no limit in the future:
/// those more than [583 years](crate::Sleep::deadline) ahead never come.
///
/// What differs from tokio-util's is on [the migration page](crate::migration#tokio-utils-delayqueue).
///
/// # Precision
///
/// No item comes early. Items are as late as a [`Sleep`] is: see [precision](crate::TimingWheel#precision). If the
/// threads that use a queue see several clocks, some of them paused, the queue goes by the one furthest ahead.
///
/// # Cancel safety
///
/// An item leaves the queue only when it is handed out. So dropping the future of [`StreamExt::next`] loses no item,
/// and you can use that future in a `select!` loop.
///
/// [`StreamExt::next`]: futures::StreamExt::next
///
/// # Examples
///
/// Items that come and go while others are awaited. `next` is that of the crate `futures`, or tokio-stream's:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use futures::StreamExt;
/// use timingwheel::time::DelayQueue;
/// use tokio::{select, sync::mpsc};
///
/// let (sender, mut orders) = mpsc::channel(8);
/// for order in [("soup", 20), ("bread", 10), ("tea", 15)] {
///     sender.send(order).await.unwrap();
/// }
/// drop(sender);
///
/// let mut kitchen = DelayQueue::new();
/// let mut served = Vec::new();
/// loop {
///     select! {
///         Some((dish, minutes)) = orders.recv() => {
///             kitchen.insert(dish, Duration::from_secs(60 * minutes));
///         }
///         Some(dish) = kitchen.next() => served.push(dish.into_inner()),
///         else => break, // No more orders, and nothing on the stove.
///     }
/// }
/// assert_eq!(served, ["bread", "tea", "soup"]);
/// # }
/// ```
pub struct DelayQueue<T> {
    deadlines: Deadlines<T>,
    /// Armed for when there is something to do, or earlier. None before the wheel is known, so before the first item.
    sleep: Option<Sleep>,
    /// It was made on a wheel by choice, and stays there also when that wheel has ended.
    stays: bool,
    /// Of the task that was told last that there is no item: the next insertion wakes it.
    told_empty: Option<Waker>,
    /// How late an item may be.
    tolerance: Duration,
}

impl<T> DelayQueue<T> {
    /// Adds an item that is due `timeout` from now. With a `timeout` of zero it is due at once, with one of more than
    /// [583 years](crate::Sleep::deadline) never.
    ///
    /// A queue takes items even after its wheel has ended. A poll still hands out an item that is due. A poll that
    /// would have to wait for an item panics, or returns an error from [`poll_try_expired`](Self::poll_try_expired).
    ///
    /// # Panics
    /// If the queue holds [`MAX_LEN`](Self::MAX_LEN) items; and, if it has yet to find a wheel, if this thread is
    /// not within a tokio runtime, or if the runtime's wheel cannot be made. The message names the caller.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use timingwheel::time::{DelayQueue, Duration};
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("job", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "job");
    /// assert!(queue.try_remove(&key).is_none());
    /// # }
    /// ```
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        let now = self.started().now();
        self.deadlines.set_now(now);
        self.insert_nanos(value, now.after(timeout))
    }

    /// Adds an item that is due at `deadline`, or at once if it has passed. Otherwise as [`insert`](Self::insert).
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        let deadline = self.started().clock().nanos(deadline);
        self.insert_nanos(value, deadline)
    }

    #[inline]
    #[track_caller]
    fn insert_nanos(&mut self, value: T, deadline: Nanos) -> Key {
        let key = self.deadlines.insert(deadline, value);
        self.be_in_time_for(deadline);
        self.tell_that_it_is_not_empty();
        key
    }

    /// Takes an item out before it is handed out.
    ///
    /// # Panics
    /// If `key` names no item. [`try_remove`](Self::try_remove) returns `None` instead.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        // Not by a closure, in which the panic would not name the caller.
        let Some(expired) = self.try_remove(key) else { panic!("{}", StaleKey(*key)) };
        expired
    }

    /// Takes an item out before it is handed out, or tells by `None` that `key` names none.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let item = self.deadlines.remove(key)?;
        let expired = self.expired(*key, item);
        if self.is_empty() {
            self.tell_that_it_is_empty();
        }
        Some(expired)
    }

    /// Gives an item the deadline `timeout` from now, also if it is due and has not been handed out. With a `timeout`
    /// of more than [583 years](crate::Sleep::deadline) it never comes.
    ///
    /// An item that is reset to later stays where it is in the wheel until that place comes up.
    ///
    /// # Panics
    /// If `key` names no item.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures::StreamExt;
    /// use timingwheel::time::{DelayQueue, Duration, Instant};
    ///
    /// let start = Instant::now();
    /// let mut queue = DelayQueue::new();
    /// let session = queue.insert("session", Duration::from_secs(60));
    /// queue.reset(&session, Duration::from_secs(90));
    /// assert_eq!(queue.next().await.unwrap().key(), session);
    /// assert_eq!(start.elapsed(), Duration::from_secs(90));
    /// # }
    /// ```
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        let Some(sleep) = &self.sleep else { panic!("{}", StaleKey(*key)) };
        let now = sleep.now();
        self.deadlines.set_now(now);
        self.reset_nanos(key, now.after(timeout));
    }

    /// Gives an item another deadline, as [`reset`](Self::reset) does. If `deadline` has passed, the item is due at
    /// once.
    ///
    /// # Panics
    /// If `key` names no item.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, deadline: Instant) {
        let Some(sleep) = &self.sleep else { panic!("{}", StaleKey(*key)) };
        let deadline = sleep.clock().nanos(deadline);
        self.reset_nanos(key, deadline);
    }

    #[inline]
    #[track_caller]
    fn reset_nanos(&mut self, key: &Key, deadline: Nanos) {
        assert!(self.deadlines.reset(key, deadline), "{}", StaleKey(*key));
        self.be_in_time_for(deadline);
    }

    /// The deadline of an item. If it is more than [583 years](crate::Sleep::deadline) ahead, an earlier one is
    /// returned.
    ///
    /// # Panics
    /// If `key` names no item.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        let items = self.deadlines.items();
        match (items.find(key).and_then(|index| items.get(index)), &self.sleep) {
            (Some(item), Some(sleep)) => sleep.clock().instant(item.deadline),
            _ => panic!("{}", StaleKey(*key)),
        }
    }

    /// The key of the item that will be handed out next, due or not, if nothing changes; `None` if the queue is empty.
    ///
    /// If a poll has found this item due, or due in the same tick, this looks at no other item. Otherwise it looks at
    /// each slot in use and at all items of the slot that begins first. It also looks at the items of each later slot
    /// that begins before the earliest deadline seen so far. An item that was reset to later, or that was inserted after
    /// another was removed, may stand in the slot of an earlier deadline until that deadline has come. To take out all items use [`drain`](Self::drain).
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.deadlines.peek()
    }

    /// How many items there are, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.deadlines.items().len()
    }

    /// Whether there are no items: then [`poll_expired`](Self::poll_expired) returns `None`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn expired(&self, key: Key, Item { value, deadline, number: _, timer: _ }: Item<T>) -> Expired<T> {
        let sleep = self.sleep.as_ref().expect("an item comes after its wheel");
        Expired { value, deadline: sleep.clock().instant(deadline), key }
    }
}

/// Nothing is pinned in it.
impl<T> Unpin for DelayQueue<T> {}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadlines: _, sleep, stays: _, told_empty: _, tolerance: _ } = self;
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("sleep", sleep)
            .finish_non_exhaustive()
    }
}
