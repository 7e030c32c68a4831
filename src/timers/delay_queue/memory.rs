//! The memory that a queue holds, and leaving it without items.

use super::items::{Item, MAX_ITEMS};
use super::{DelayQueue, Expired, Key};

impl<T> DelayQueue<T> {
    /// The most items that a queue holds: 4,294,966,256. One more is refused by a panic that names both.
    pub const MAX_LEN: usize = MAX_ITEMS;

    /// How many items there is room for. With more the queue takes a larger block, and copies them.
    ///
    /// The timers of the items take memory of their own, as they need it: 32 bytes for each that is pending, in pages
    /// of 1,024 that are given back when they empty, and 8 in its slot.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.deadlines.items().capacity()
    }

    /// Takes memory for at least `additional` more items than there are, unless there is room for them.
    ///
    /// # Panics
    /// If there would be more than [`MAX_LEN`](Self::MAX_LEN) items, or if there is no memory for them. The queue then
    /// stays as it was. But if an insertion finds no memory, the process aborts, as everywhere in Rust.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.deadlines.items_mut().reserve(additional);
    }

    /// Gives back the memory behind the last item; what is free between items stays. See [`compact`](Self::compact).
    pub fn shrink_to_fit(&mut self) {
        self.deadlines.shrink_to_fit();
    }

    /// Moves items together and gives all memory back that they leave: [`capacity`](Self::capacity) is
    /// [`len`](Self::len) then.
    ///
    /// Keys stay valid. A key of an item that was moved finds it in one step more, by a table of the moved items.
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
        self.deadlines.compact();
    }

    /// Drops all items, and wakes the task that waits for one. The room for items is kept, as
    /// [`capacity`](Self::capacity) tells it; what their timers took is given back.
    ///
    /// # Panics
    /// If dropping an item does. The queue is empty then, and the other items are dropped too.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        let mut items = self.deadlines.detach();
        self.tell_that_it_is_empty();
        items.clear();
        self.deadlines.items_mut().attach(items);
    }

    /// Takes all items out, due or not, and wakes the task that waits for one. They come in the order in which they
    /// would have been handed out. This takes only one sort of the items, whereas [`peek`](Self::peek) searches for
    /// each item.
    ///
    /// The queue is empty at once, and can be used meanwhile. Items that are not taken from the iterator are dropped
    /// with it. The room for items is kept, as by [`clear`](Self::clear).
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
    #[must_use = "what is not taken from it is dropped; `clear` says so"]
    pub fn drain(&mut self) -> std::vec::IntoIter<Expired<T>> {
        if self.is_empty() {
            return Vec::new().into_iter();
        }
        let mut detached = self.deadlines.detach();
        let mut items: Vec<Item<T>> = detached.drain().collect();
        self.deadlines.items_mut().attach(detached);
        items.sort_unstable_by_key(|item| (item.deadline, item.number));
        // Their keys are stale, so there is no place to look first.
        let key = |item: &Item<T>| Key { number: item.number, index: 0 };
        let expired: Vec<_> = items.into_iter().map(|item| self.expired(key(&item), item)).collect();
        self.tell_that_it_is_empty();
        expired.into_iter()
    }
}
