//! Lists by hash. Pure: no lock, no key.
//!
//! ```text
//! hash table          rows
//! hash 7: a
//! hash 9: ─────────▶  0: b   5: has left   6: d
//! ```
//!
//! An item is added at the end of its list, and taken out by its number. Most lists only ever have one item, which stands in
//! the table itself. Others have a row of slots, in which an item touches no other. Whoever leaves a row leaves its slot
//! empty. Empty slots are given back at the front at once, and elsewhere when seven of eight are empty. So this takes
//! constant time, but for a binary search by those that were there when slots between them were given back.
//!
//! Numbers are given out in order, and none twice in a row. So a walk over a long list, which lets go of the lock now
//! and then, goes by numbers, up to the one that comes next as it begins. Whatever leaves or comes in between, it misses
//! nothing and comes to its end.

mod row;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use row::Row;
pub(super) use walk::{BATCH, Found, Position};

/// To give back the memory of fewer is not worth it.
const SMALL: usize = 64;

/// The number of the item that came to an empty list.
const FIRST: u64 = 0;

pub(super) struct Links<T> {
    lists: HashTable<List<T>>,
    items: usize,
    /// Every row that has ended gave out smaller numbers only, so that no walk over it goes on in the next row under its
    /// hash.
    next: u64,
}

struct List<T> {
    hash: u64,
    items: Items<T>,
}

enum Items<T> {
    One(T),
    Row(Box<Row<T>>),
}

impl<T> Links<T> {
    pub(super) const fn new() -> Self {
        Self { lists: HashTable::new(), items: 0, next: FIRST + 1 }
    }

    pub(super) const fn len(&self) -> usize {
        self.items
    }

    /// Adds an item at the end of its list, and returns its number.
    #[inline]
    pub(super) fn push(&mut self, hash: u64, item: T) -> u64 {
        self.items += 1;
        match self.lists.entry(hash, |list| list.hash == hash, |list| list.hash) {
            Entry::Vacant(place) => {
                place.insert(List { hash, items: Items::One(item) });
                FIRST
            }
            Entry::Occupied(mut list) => {
                if let Items::Row(row) = &mut list.get_mut().items {
                    return row.push(item);
                }
                let (list, place) = list.remove();
                let mut row = match list.items {
                    Items::One(first) => Box::new(Row::new(first, self.next)),
                    Items::Row(row) => row,
                };
                let number = row.push(item);
                place.insert(List { hash, items: Items::Row(row) });
                number
            }
        }
    }

    /// Takes an item out by its number.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, number: u64) -> Option<T> {
        let mut list = self.lists.find_entry(hash, |list| list.hash == hash).ok()?;
        let item = match &mut list.get_mut().items {
            Items::Row(row) => {
                let item = row.take(number)?;
                if row.is_empty() {
                    self.next = self.next.max(row.next());
                    list.remove();
                }
                item
            }
            Items::One(_) => match list.remove().0.items {
                Items::One(item) => item,
                Items::Row(_) => return None,
            },
        };
        self.items -= 1;
        Some(item)
    }

    /// Gives memory of the table back if nearly all of it is free. This takes a constant time for each list that was there
    /// before. What stands where in the table changes.
    #[inline]
    pub(super) fn tidy(&mut self) {
        let (lists, buckets) = (self.lists.len(), self.lists.num_buckets());
        if buckets > SMALL && lists < buckets / 16 {
            self.lists.shrink_to(2 * lists, |list| list.hash);
        }
    }
}
