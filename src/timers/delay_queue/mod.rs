//! `time::DelayQueue`: hands out each item when its deadline comes. `items` knows which item comes next. `poll`
//! hands it out, and arms the queue's one sleep.

mod items;
#[cfg(test)]
mod model_tests;
mod poll;

use std::collections::HashMap;
use std::fmt;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use items::{Item, Items, MAX_ITEMS};

pub use self::items::Key;
use crate::handle::TimingWheel;
use crate::platform::clock;
use crate::platform::wakers::contained;
use crate::runtime_wheel::with_current;
use crate::timers::sleep::Sleep;
use crate::wheel::{Nanos, Resolution};

/// Many items with deadlines, in one task: each item is handed out when its deadline comes. Take items from it as a
/// stream, or by [`poll_expired`](Self::poll_expired).
///
/// Items come in the order of the wheel's ticks in which their deadlines lie. Within a tick they may come in any order.
/// By the [`Key`] that its insertion returned, an item can be removed, or get another deadline, until it is handed out.
/// A key that has outlived its item finds nothing.
///
/// A queue that a wheel's [`delay_queue`](crate::TimingWheel::delay_queue) made belongs to that wheel. Any other queue
/// belongs to the wheel of the runtime in which its first item is inserted. If that wheel has ended, and the queue is
/// empty, the next insertion chooses a wheel anew. A queue has one timer on its wheel, and only that timer takes a lock.
///
/// It holds at most [`MAX_LEN`](Self::MAX_LEN) items. A deadline may be any instant: one more than [292
/// years](crate::Sleep::deadline) ahead never comes.
///
/// The migration page lists the [differences](crate::migration#tokio-utils-delayqueue) from tokio-util's queue.
///
/// # Precision
///
/// No item comes early. Items are as late as a [`Sleep`] is: see [precision](crate::TimingWheel#precision). If the
/// threads that use a queue see different clocks, because some are paused, the latest time counts.
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
/// Items are added while others are awaited. `next` comes from the crate `futures`; tokio-stream's works too:
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
    items: Items<T>,
    /// The deadlines that lie beyond the wheel's times, as the caller set them, by the item's number. Apart, so that an item
    /// is small: one that is replaced at random is in no cache.
    far: HashMap<u64, Instant>,
    /// None before the wheel is known, so before the first item.
    sleep: Option<Sleep>,
    /// Whether a wheel's `delay_queue` made it: then it stays on that wheel even when the wheel has ended.
    stays: bool,
    /// The waker of the last task that found the queue empty. The next insertion wakes that task.
    told_empty: Option<Waker>,
}

impl TimingWheel {
    /// An empty delay queue on this wheel, with its tick.
    ///
    /// However many items it holds, it has one timer in the wheel. The timer belongs to the [shard](crate::Builder::shards)
    /// of the thread that calls this, so make the queue in the task that will poll it.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), timingwheel::BuildError> {
    /// use std::time::Duration;
    /// use futures::StreamExt;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().tick(Duration::from_micros(100)).build()?;
    /// let mut queue = wheel.delay_queue();
    /// queue.insert("later", Duration::from_millis(2));
    /// queue.insert("sooner", Duration::from_millis(1));
    /// assert_eq!(queue.next().await.map(|expired| expired.into_inner()), Some("sooner"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn delay_queue<T>(&self) -> DelayQueue<T> {
        let mut queue = DelayQueue::new();
        queue.start(self.sleep_unset());
        queue.stays = true;
        queue
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue, on the wheel of the runtime within which the first item is inserted.
    ///
    /// If that wheel has ended, and the queue is empty, the next insertion chooses a wheel again.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn new() -> Self {
        // Any will do until the wheel is known.
        let resolution = Resolution::new(Duration::from_millis(1)).expect("not zero");
        Self {
            items: Items::new(resolution),
            far: HashMap::new(),
            sleep: None,
            stays: false,
            told_empty: None,
        }
    }

    /// An empty queue with room for `capacity` items, otherwise as [`new`](Self::new).
    ///
    /// # Panics
    /// If `capacity` is more than [`MAX_LEN`](Self::MAX_LEN).
    #[must_use]
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(capacity);
        queue
    }

    /// Adds an item that is due `timeout` from now. With a `timeout` of zero it is due at once, with more than
    /// [292 years](crate::Sleep::deadline) never.
    ///
    /// A queue takes items even after its wheel has ended. Due items are still handed out then. A poll that would have to
    /// wait panics, or returns an error from [`poll_try_expired`](Self::poll_try_expired).
    ///
    /// # Panics
    /// If the queue holds [`MAX_LEN`](Self::MAX_LEN) items. A queue that has no wheel yet also panics if this thread is not
    /// within a tokio runtime, or if the runtime's wheel cannot be made. The message names the caller.
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
        let now = self.started().shard().clock.now_as_instant();
        let at = clock::nanos(now);
        self.insert_for(Some(at), at.after(timeout), || after(now, timeout), value)
    }

    /// Adds an item that is due at `deadline`, or at once if that has passed. Otherwise as [`insert`](Self::insert).
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[track_caller]
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        self.started();
        self.insert_for(None, clock::nanos(deadline), || deadline, value)
    }

    #[inline]
    #[track_caller]
    fn insert_for(
        &mut self,
        now: Option<Nanos>,
        deadline: Nanos,
        instant: impl FnOnce() -> Instant,
        value: T,
    ) -> Key {
        let key = self.items.insert(now, deadline, value);
        self.note_far(key.number, deadline, instant);
        self.be_in_time_for(deadline, now);
        if let Some(told) = self.told_empty.take() {
            contained(|| told.wake());
        }
        key
    }

    /// Takes an item out before it is handed out.
    ///
    /// # Panics
    /// If `key` names no item. [`try_remove`](Self::try_remove) returns `None` instead.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        let Some(expired) = self.try_remove(key) else { stale(key) };
        expired
    }

    /// Takes an item out before it is handed out. `None` if `key` names no item.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let item = self.items.remove(key)?;
        if self.is_empty() {
            self.wake();
        }
        Some(self.expired(item, key.index))
    }

    /// Gives an item the deadline `timeout` from now, even if it is due already. With a `timeout` of more than
    /// [292 years](crate::Sleep::deadline) it never comes.
    ///
    /// A reset to later is cheap: it touches only the item.
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
        let Some(sleep) = &self.sleep else { stale(key) };
        let now = sleep.shard().clock.now_as_instant();
        let at = clock::nanos(now);
        self.reset_to(key, Some(at), at.after(timeout), || after(now, timeout));
    }

    /// Gives an item another deadline, as [`reset`](Self::reset) does. If `deadline` has passed, the item is due at
    /// once.
    ///
    /// # Panics
    /// If `key` names no item.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, deadline: Instant) {
        self.reset_to(key, None, clock::nanos(deadline), || deadline);
    }

    #[inline]
    #[track_caller]
    fn reset_to(
        &mut self,
        key: &Key,
        now: Option<Nanos>,
        deadline: Nanos,
        instant: impl FnOnce() -> Instant,
    ) {
        if !self.items.reset(now, key, deadline) {
            stale(key)
        }
        self.note_far(key.number, deadline, instant);
        self.be_in_time_for(deadline, now);
    }

    /// The deadline of an item, as it was set.
    ///
    /// # Panics
    /// If `key` names no item.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        let Some(item) = self.items.get(key) else { stale(key) };
        self.far.get(&key.number).copied().unwrap_or_else(|| clock::instant(item.deadline))
    }

    /// Notes the deadline of an item, if it cannot be told from its time on the wheel.
    #[inline]
    fn note_far(&mut self, number: u64, deadline: Nanos, instant: impl FnOnce() -> Instant) {
        if clock::is_beyond(deadline) {
            self.far.insert(number, instant());
        } else if !self.far.is_empty() {
            self.far.remove(&number);
        }
    }

    /// For an item that leaves the queue.
    #[inline]
    fn expired(&mut self, item: Item<T>, index: usize) -> Expired<T> {
        let Item { value, deadline, number, .. } = item;
        let far = if self.far.is_empty() { None } else { self.far.remove(&number) };
        let deadline = far.map_or(Deadline::At(deadline), Deadline::Far);
        Expired { value, deadline, key: Key { number, index } }
    }

    /// The key of the item that will be handed out next, due or not, if nothing changes; `None` if the queue is empty.
    /// Until a poll has found an item due, another item of the same tick may come first.
    ///
    /// This is cheap if a poll has found an item due. Otherwise it looks at each slot in use, and at all items of the first
    /// slot or slots. To take out all items use [`drain`](Self::drain).
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.items.peek()
    }

    /// How many items there are, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items: then [`poll_expired`](Self::poll_expired) returns `None`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most items that a queue holds: 4,294,966,271. Inserting one more panics.
    pub const MAX_LEN: usize = MAX_ITEMS;

    /// How many items there is room for. For more, the queue takes a larger block and copies its items.
    ///
    /// Timers of pending items take further memory when they need it: 32 bytes for each, in pages of 1,024 that are given
    /// back when empty, and 8 in its slot.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Makes room for at least `additional` more items.
    ///
    /// # Panics
    /// If there would be more than [`MAX_LEN`](Self::MAX_LEN) items. If there is no memory for them, the process aborts, as
    /// everywhere in Rust.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.items.reserve(additional);
    }

    /// Gives back the free memory behind the last item. [`compact`](Self::compact) also gives back the room between items.
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
        self.far.shrink_to_fit();
    }

    /// Moves items together, and gives all free memory back: [`capacity`](Self::capacity) is [`len`](Self::len) then.
    ///
    /// Keys stay valid. Finding a moved item takes one step more: a table has the new places.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use timingwheel::time::{DelayQueue, Duration};
    ///
    /// let mut queue = DelayQueue::with_capacity(10);
    /// let keys = [1, 2, 3].map(|n| queue.insert(n, Duration::from_secs(n)));
    /// queue.remove(&keys[0]);
    ///
    /// queue.compact();
    /// assert_eq!(queue.capacity(), 2);
    /// assert_eq!(queue.remove(&keys[2]).into_inner(), 3);
    /// # }
    /// ```
    pub fn compact(&mut self) {
        self.items.compact();
        self.far.shrink_to_fit();
    }

    /// Drops all items, and wakes the waiting task. The [`capacity`](Self::capacity) stays; the memory of the timers is
    /// given back.
    ///
    /// # Panics
    /// If dropping an item does. The queue is empty then, and the other items are dropped too.
    pub fn clear(&mut self) {
        self.wake();
        self.far.clear();
        drop(self.items.restart(self.items.resolution()));
    }

    /// Takes all items out, due or not, in the order in which they would have been handed out, and wakes the waiting task.
    ///
    /// The queue is empty at once, and you can use it meanwhile. Dropping the iterator drops the items that are left in it.
    /// The [`capacity`](Self::capacity) stays. This sorts the items once, whereas [`peek`](Self::peek) searches for each.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use timingwheel::time::{DelayQueue, Duration};
    ///
    /// let mut queue = DelayQueue::new();
    /// let job = queue.insert("job", Duration::from_secs(60));
    /// let deadline = queue.deadline(&job);
    ///
    /// let mut items = queue.drain();
    /// assert!(queue.is_empty());
    /// let item = items.next().unwrap();
    /// assert_eq!((*item.get_ref(), item.deadline(), item.key()), ("job", deadline, job));
    /// # }
    /// ```
    #[must_use = "dropping this drops all items; `clear` says so"]
    pub fn drain(&mut self) -> std::vec::IntoIter<Expired<T>> {
        self.wake();
        let mut items: Vec<_> = self.items.restart(self.items.resolution()).collect();
        items.sort_unstable_by_key(Item::rank);
        // Their keys are stale, so there is no place to look first.
        items.into_iter().map(|item| self.expired(item, 0)).collect::<Vec<_>>().into_iter()
    }

    /// The queue's sleep. If it has no wheel yet, or an ended one that it may leave, it gets the current runtime's wheel.
    #[inline]
    #[track_caller]
    fn started(&mut self) -> &Sleep {
        if self.sleep.as_ref().is_none_or(|sleep| self.is_empty() && !self.stays && sleep.shard().has_ended())
        {
            self.start(with_current(TimingWheel::sleep_unset));
        }
        self.sleep.as_ref().expect("it has been started")
    }

    #[cold]
    fn start(&mut self, sleep: Sleep) {
        drop(self.items.restart(sleep.shard().resolution));
        self.sleep = Some(sleep);
    }
}

/// An item that has left its [`DelayQueue`], because its deadline came or because it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    value: T,
    deadline: Deadline,
    key: Key,
}

/// To make an instant of a time takes longer than to remove an item, and few ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    At(Nanos),
    /// Beyond the wheel's times.
    Far(Instant),
}

impl<T> Expired<T> {
    /// The value.
    #[must_use]
    pub const fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value.
    #[must_use = "the value is in no queue any more"]
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The deadline that was set last.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match self.deadline {
            Deadline::At(at) => clock::instant(at),
            Deadline::Far(instant) => instant,
        }
    }

    /// The item's key, which is stale now.
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }
}

/// Panics, because a key names no item. Not in a closure, in which the panic would not name the caller.
#[cold]
#[track_caller]
fn stale(key: &Key) -> ! {
    panic!("{key:?} names no item of this delay queue: it was handed out or removed, or is another queue's")
}

/// The instant `timeout` after `now`, or one that never comes.
#[cold]
fn after(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or_else(|| clock::instant(Nanos::MAX))
}

/// As [`DelayQueue::new`].
impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Nothing is pinned in it.
impl<T> Unpin for DelayQueue<T> {}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
