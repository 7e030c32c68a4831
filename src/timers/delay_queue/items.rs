//! The items of a queue, and the keys by which their owners find them again.

use std::collections::HashMap;
use std::hint::black_box;

use slab::Slab;

use super::key::Key;
use super::leftovers::ROOM;
use super::timer::Timer;
use crate::wheel::{MAX_ENTRIES, Nanos};

/// The most items that a queue holds: as many as its timers have indices for, beside those of removed items.
pub(super) const MAX_ITEMS: usize = MAX_ENTRIES - ROOM;

#[derive(Debug)]
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) deadline: Nanos,
    /// That of its insertion. Its key has it too, and of items with the same deadline the least comes first.
    pub(super) number: u64,
    /// Its entry among the timers, or none if it is among the due.
    pub(super) timer: Option<Timer>,
}

#[derive(Debug)]
pub(super) struct Items<T> {
    slab: Slab<Item<T>>,
    /// Where those are that `compact` has moved from where their keys say, by number.
    moved: HashMap<u64, usize>,
    /// Those of 64 bits are not used up, so none is used twice.
    next_number: u64,
}

impl<T> Items<T> {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new(), moved: HashMap::new(), next_number: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds an item without a timer.
    ///
    /// # Panics
    /// If there are [`MAX_ITEMS`].
    #[inline]
    #[track_caller]
    pub(super) fn insert(&mut self, deadline: Nanos, value: T) -> Key {
        assert_room(self.slab.len(), 1);
        let number = self.next_number;
        self.next_number += 1;
        let index = self.slab.insert(Item { value, deadline, number, timer: None });
        Key { number, index }
    }

    /// Where the item is that `key` names, unless the key is stale.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        match self.slab.get(key.index) {
            Some(item) if item.number == key.number => Some(key.index),
            _ => self.moved.get(&key.number).copied(),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Item<T>> {
        self.slab.get(index)
    }

    /// # Panics
    /// If there is none at `index`.
    pub(super) fn at(&self, index: usize) -> &Item<T> {
        &self.slab[index]
    }

    /// # Panics
    /// If there is none at `index`.
    #[inline]
    pub(super) fn at_mut(&mut self, index: usize) -> &mut Item<T> {
        &mut self.slab[index]
    }

    /// # Panics
    /// If there is none at `index`.
    #[inline]
    pub(super) fn remove(&mut self, index: usize) -> Item<T> {
        let item = self.slab.remove(index);
        if !self.moved.is_empty() {
            self.moved.remove(&item.number);
        }
        item
    }

    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// # Panics
    /// If there would be room for more than [`MAX_ITEMS`], or if there is no memory for that.
    #[track_caller]
    pub(super) fn reserve(&mut self, additional: usize) {
        assert_room(self.slab.len(), additional);
        let capacity = self.slab.capacity();
        let needed = self.slab.len() + additional;
        if needed > capacity {
            assert_memory::<T>(needed.max(capacity.saturating_mul(2)), additional);
            self.slab.reserve(additional);
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.slab.shrink_to_fit();
        self.moved.shrink_to_fit();
    }

    /// Moves items together, so that they take no more memory than they have to, and tells `at` of each with its
    /// new index.
    pub(super) fn compact(&mut self, mut at: impl FnMut(&Item<T>, usize)) {
        let Self { slab, moved, next_number: _ } = self;
        slab.compact(|item, _, to| {
            moved.insert(item.number, to);
            at(item, to);
            true
        });
        moved.shrink_to_fit();
    }

    /// Leaves no item, and returns what they were in: dropping them is code of a user's.
    pub(super) fn detach(&mut self) -> Slab<Item<T>> {
        self.moved.clear();
        std::mem::take(&mut self.slab)
    }

    /// Takes back the memory of what was detached and has been emptied since.
    pub(super) fn attach(&mut self, emptied: Slab<Item<T>>) {
        debug_assert!(emptied.is_empty() && self.slab.is_empty());
        self.slab = emptied;
    }
}

#[inline]
#[track_caller]
fn assert_room(len: usize, additional: usize) {
    assert!(
        additional <= MAX_ITEMS - len,
        "a delay queue of {len} items with room for {additional} more: it holds at most {MAX_ITEMS}",
    );
}

/// Takes the memory for `items` and gives it back. A slab that finds none ends the process; this panics.
#[track_caller]
fn assert_memory<T>(items: usize, additional: usize) {
    // An item in a slab takes no more than this.
    let mut memory = Vec::<(Item<T>, usize)>::new();
    let taken = memory.try_reserve_exact(items);
    // Memory that nobody looks at need not be taken, for the compiler.
    black_box(&mut memory);
    if let Err(error) = taken {
        panic!("a delay queue cannot have room for {additional} more items: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_last_item_and_not_for_one_more() {
        assert_room(MAX_ITEMS - 1, 1);
        let one_more = std::panic::catch_unwind(|| assert_room(MAX_ITEMS, 1));
        let message = one_more.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            *message,
            "a delay queue of 4294966256 items with room for 1 more: it holds at most 4294966256"
        );
    }

    #[test]
    fn a_key_finds_its_item_wherever_it_was_moved_and_no_other() {
        let mut items = Items::new();
        let keys: Vec<Key> = (0..8).map(|n| items.insert(Nanos(n), n)).collect();
        for key in &keys[..6] {
            items.remove(items.find(key).unwrap());
        }
        items.compact(|_, _| {});
        assert_eq!((items.len(), items.capacity()), (2, 2));
        let value =
            |items: &Items<u64>, key: &Key| items.find(key).map(|index| items.get(index).unwrap().value);
        assert_eq!(keys.iter().map(|key| value(&items, key)).collect::<Vec<_>>(), {
            let mut expected = vec![None; 6];
            expected.extend([Some(6), Some(7)]);
            expected
        });
        // Where the moved ones were before there is another now.
        let later: Vec<Key> = (10..20).map(|n| items.insert(Nanos(n), n)).collect();
        assert_eq!(
            later.iter().map(|key| value(&items, key).unwrap()).collect::<Vec<_>>(),
            Vec::from_iter(10..20)
        );
        assert_eq!((value(&items, &keys[6]), value(&items, &keys[7])), (Some(6), Some(7)));
        items.remove(items.find(&keys[6]).unwrap());
        assert_eq!(value(&items, &keys[6]), None);
        assert_eq!(items.moved.len(), 1, "what has left is not remembered");
    }
}
