//! The items and their keys. This part is pure: it is told the time. It finds the due items, and the time to look again.
//!
//! A [`Hierarchy`] holds the indices of the items that are not due. Due items go from there to a heap, which sorts them
//! by deadline. So items come in the order of their ticks, and items of one tick that are found together in the order of
//! their deadlines.
//!
//! Two operations put work off, because it is often not needed:
//!
//! - Moving an item to later leaves its timer. The item is put back when the timer comes due.
//! - Removing an item leaves its timer, until the next is removed. The next item at the same index reuses it. So
//!   replacing an item touches the hierarchy only for an earlier deadline.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};

use slab::{Drain, Slab};

use crate::wheel::{self, Hierarchy, MAX_ENTRIES, Nanos, Progress, Resolution};

/// The most items that a queue holds: one fewer than timers, because the timer of a removed item may stay.
pub(super) const MAX_ITEMS: usize = MAX_ENTRIES - 1;
/// How many slots the levels of the timers have.
const SLOTS: usize = 64;
/// Places among the due that may be stale, however few items there are.
const STALE: usize = 64;

/// Names an item of a [`DelayQueue`](super::DelayQueue).
///
/// Once its item has left the queue, a key is stale: it finds nothing, now or later, because no two items of a queue have
/// the same key. In another queue it may name another item.
#[derive(Clone, Copy)]
pub struct Key {
    /// Counts the insertions of its queue, so no two keys of that have the same.
    pub(super) number: u64,
    /// Where to look first: `DelayQueue::compact` may have moved the item.
    pub(super) index: usize,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(of insertion {})", self.number)
    }
}

#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) deadline: Nanos,
    /// Counts the insertions, as in the item's key.
    pub(super) number: u64,
    /// None if it is among the due.
    timer: Option<Timer>,
}

impl<T> Item<T> {
    /// The order of items.
    pub(super) const fn rank(&self) -> (Nanos, u64) {
        (self.deadline, self.number)
    }
}

/// An entry of the hierarchy. Its deadline is the item's or an earlier one.
#[derive(Clone, Copy, Debug)]
struct Timer {
    key: wheel::Key,
    deadline: Nanos,
}

/// Deadline, number and index of an item that is due. Stale if the item has been removed or moved since.
type Due = (Nanos, u64, usize);

#[derive(Debug)]
pub(super) struct Items<T> {
    slab: Slab<Item<T>>,
    /// The indices of the items that `compact` has moved, by number. Their keys still have the old indices.
    moved: HashMap<u64, usize>,
    /// Numbers of 64 bits never run out, so no number is used twice.
    next_number: u64,
    timers: Hierarchy<usize>,
    /// The timer of the item that was removed last, and its index, at which there is no item.
    left: Option<(usize, Timer)>,
    due: BinaryHeap<Reverse<Due>>,
    /// More than a batch came due at once. The rest, which is still to be found, may have an earlier item.
    is_behind: bool,
    /// Empty between calls. It keeps its memory.
    handed_out: Vec<usize>,
}

impl<T> Items<T> {
    pub(super) fn new(resolution: Resolution) -> Self {
        Self {
            slab: Slab::new(),
            moved: HashMap::new(),
            next_number: 0,
            timers: Hierarchy::new(resolution, SLOTS),
            left: None,
            due: BinaryHeap::new(),
            is_behind: false,
            handed_out: Vec::new(),
        }
    }

    /// Takes all items out, in any order. The room for them stays, and the numbers of keys go on. The queue may have
    /// another clock from now on, which may have another origin.
    pub(super) fn restart(&mut self, resolution: Resolution) -> Drain<'_, Item<T>> {
        self.timers = Hierarchy::new(resolution, SLOTS);
        self.left = None;
        self.is_behind = false;
        self.due.clear();
        self.moved.clear();
        self.slab.drain()
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) const fn resolution(&self) -> Resolution {
        self.timers.resolution()
    }

    /// Adds an item. `now` is the time, if the caller has read the clock, and may be stale.
    ///
    /// # Panics
    /// If there are [`MAX_ITEMS`].
    #[inline]
    #[track_caller]
    pub(super) fn insert(&mut self, now: Option<Nanos>, deadline: Nanos, value: T) -> Key {
        assert_room(self.len(), 1);
        let number = self.next_number;
        self.next_number += 1;
        let index = self.slab.insert(Item { value, deadline, number, timer: None });
        let left = self.left.take_if(|(left, _)| *left == index);
        self.put(now, index, left.map(|(_, timer)| timer));
        Key { number, index }
    }

    /// Sees to an item's timer: keeps `timer` unless it is too late, or makes one, or puts the item among the due.
    #[inline(always)]
    fn put(&mut self, now: Option<Nanos>, index: usize, timer: Option<Timer>) {
        let item = &mut self.slab[index];
        let deadline = item.deadline;
        item.timer = match timer {
            Some(timer) if deadline >= timer.deadline => Some(timer),
            Some(Timer { key, .. }) if deadline > self.timers.clock() => {
                self.timers.reschedule(key, deadline);
                Some(Timer { key, deadline })
            }
            Some(Timer { key, .. }) => {
                self.timers.cancel(key);
                None
            }
            None => {
                // The hierarchy refuses an overdue deadline, unless it is told an earlier time.
                let now = now.filter(|&now| deadline > now).unwrap_or(Nanos::ZERO);
                self.timers.insert(now, deadline, index).ok().map(|key| Timer { key, deadline })
            }
        };
        if item.timer.is_none() {
            self.due.push(Reverse((deadline, item.number, index)));
        }
    }

    /// Moves an item to another deadline, and returns whether `key` names one.
    #[inline]
    pub(super) fn reset(&mut self, now: Option<Nanos>, key: &Key, deadline: Nanos) -> bool {
        let Some(index) = self.find(key) else { return false };
        let item = &mut self.slab[index];
        item.deadline = deadline;
        let timer = item.timer;
        self.put(now, index, timer);
        if timer.is_none() {
            self.drop_stale();
        }
        true
    }

    /// Takes an item out, unless `key` is stale.
    #[inline]
    pub(super) fn remove(&mut self, key: &Key) -> Option<Item<T>> {
        Some(self.take(self.find(key)?))
    }

    #[inline]
    fn take(&mut self, index: usize) -> Item<T> {
        let item = self.slab.remove(index);
        if !self.moved.is_empty() {
            self.moved.remove(&item.number);
        }
        if let Some(timer) = item.timer {
            if let Some((_, before)) = self.left.replace((index, timer)) {
                self.timers.cancel(before.key);
            }
        } else {
            self.drop_stale();
        }
        // An empty queue keeps no timer, because it may never be polled again.
        if self.slab.is_empty() {
            self.drop_left();
        }
        item
    }

    fn drop_left(&mut self) {
        if let Some((_, timer)) = self.left.take() {
            self.timers.cancel(timer.key);
        }
    }

    /// Where the item is that `key` names, unless the key is stale.
    #[inline]
    fn find(&self, key: &Key) -> Option<usize> {
        match self.slab.get(key.index) {
            Some(item) if item.number == key.number => Some(key.index),
            _ => self.moved.get(&key.number).copied(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Item<T>> {
        Some(&self.slab[self.find(key)?])
    }

    /// Finds the items that are due at `now`, in about `batch` timers. Earlier calls may have found some of them.
    pub(super) fn advance(&mut self, now: Nanos, batch: usize) -> Progress {
        self.drop_left();
        let mut handed_out = std::mem::take(&mut self.handed_out);
        let progress = self.timers.advance(now, batch, &mut handed_out);
        for index in handed_out.drain(..) {
            let item = &mut self.slab[index];
            if item.deadline > now {
                // It was moved to later.
                self.put(Some(now), index, None);
            } else {
                item.timer = None;
                self.due.push(Reverse((item.deadline, item.number, index)));
            }
        }
        self.handed_out = handed_out;
        self.is_behind = progress == Progress::More;
        progress
    }

    /// How many items have timers.
    fn timed(&self) -> usize {
        self.timers.len() - usize::from(self.left.is_some())
    }

    /// Whether an item is due, and all earlier ones have been found.
    pub(super) fn has_due(&self) -> bool {
        !self.is_behind() && !self.due.is_empty()
    }

    /// Whether [`advance`](Self::advance) has to go on.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind && self.timed() > 0
    }

    /// Takes out the first of the due items that have been found.
    pub(super) fn pop(&mut self) -> Option<(Key, Item<T>)> {
        let Reverse(first) = self.due.pop()?;
        let index = self.current(first)?;
        Some((Key { number: first.1, index }, self.take(index)))
    }

    /// The index of the item that has this place among the due, unless the place is stale.
    fn current(&self, (deadline, number, index): Due) -> Option<usize> {
        let index = self.find(&Key { number, index })?;
        let item = &self.slab[index];
        (item.deadline == deadline && item.timer.is_none()).then_some(index)
    }

    /// Drops stale places: the first, and all if there are many.
    fn drop_stale(&mut self) {
        while let Some(&Reverse(first)) = self.due.peek()
            && self.current(first).is_none()
        {
            self.due.pop();
        }
        if self.due.len() > 2 * (self.len() - self.timed()) + STALE {
            let mut all = std::mem::take(&mut self.due).into_vec();
            all.retain(|&Reverse(due)| self.current(due).is_some());
            // An item that was moved away and back has its place twice.
            all.sort_unstable();
            all.dedup();
            self.due = all.into();
        }
    }

    /// When to look again, if nothing is due: when the first bucket begins. Its items may only have to move down.
    pub(super) fn next_look(&mut self) -> Option<Nanos> {
        self.timers.next_expiration()
    }

    /// The item with a timer that has the earliest deadline.
    fn first_timed(&self) -> Option<usize> {
        // At the index of the timer that was left there is no item.
        self.timers.earliest_by(|&index| self.slab.get(index).map(Item::rank)).copied()
    }

    /// The key of the item that will be popped next, if nothing changes, or of another one in its tick: a timer that was
    /// kept may find an item before its neighbours.
    pub(super) fn peek(&self) -> Option<Key> {
        let found = self.due.peek().and_then(|&Reverse(first)| self.current(first));
        let timed = if self.has_due() { None } else { self.first_timed() };
        let index = found.into_iter().chain(timed).min_by_key(|&index| self.slab[index].rank())?;
        Some(Key { number: self.slab[index].number, index })
    }

    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// # Panics
    /// If there would be room for more than [`MAX_ITEMS`].
    #[track_caller]
    pub(super) fn reserve(&mut self, additional: usize) {
        assert_room(self.len(), additional);
        self.slab.reserve(additional);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.drop_left();
        self.slab.shrink_to_fit();
        self.moved.shrink_to_fit();
        self.due.shrink_to_fit();
        self.handed_out.shrink_to_fit();
    }

    /// Moves items together, so that they take no more memory than they have to.
    pub(super) fn compact(&mut self) {
        self.slab.compact(|item, _, to| {
            self.moved.insert(item.number, to);
            if let Some(index) = item.timer.and_then(|timer| self.timers.get_mut(timer.key)) {
                *index = to;
            }
            true
        });
        self.shrink_to_fit();
    }

    /// For tests.
    ///
    /// # Panics
    /// If something does not hold.
    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        self.timers.assert_invariants();
        let due = self.slab.iter().filter(|(_, item)| item.timer.is_none()).count();
        assert_eq!(due + self.timed(), self.len());
        assert!((due..=2 * due + STALE).contains(&self.due.len()), "{} places for {due}", self.due.len());
        assert!(self.left.is_none_or(|(index, _)| !self.slab.is_empty() && !self.slab.contains(index)));
    }
}

#[inline]
#[track_caller]
fn assert_room(len: usize, additional: usize) {
    assert!(
        additional <= MAX_ITEMS - len,
        "a delay queue holds at most {MAX_ITEMS} items, got {len} and {additional} more",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_last_item_and_not_for_one_more() {
        assert_room(MAX_ITEMS - 1, 1);
        let one_more = std::panic::catch_unwind(|| assert_room(MAX_ITEMS, 1));
        let message = one_more.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "a delay queue holds at most 4294966271 items, got 4294966271 and 1 more");
    }
}
