//! Lists by hash, linked through one slab. Pure: no lock, no key.
//!
//! ```text
//! lists, a hash table        nodes, a slab
//! hash 7: first 0, last 3    0: a, after 1   1: b, before 0, after 3   2: free   3: c, before 1
//! ```
//!
//! An item is added at the end of its list, and taken out by its index, in constant time: neighbours are linked to each
//! other, and only who stands first or last is in the table. A walk over a long list lets go of the lock now and then.
//! Meanwhile two marks stand in the list, at its place and at the end that the list had, so that whatever leaves or comes
//! in between, it misses nothing and comes to its end.
//!
//! The slab gives its memory back: when only an eighth is left of what it once held, the items move together.

#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

pub(super) use walk::{BATCH, Found, Marks};

/// A slab of fewer nodes is not worth moving.
const SMALL: usize = 64;

/// No node has this index.
const NONE: u32 = u32::MAX;

pub(super) struct Links<T> {
    lists: HashTable<List>,
    nodes: Vec<Node<T>>,
    /// The first of the free nodes, which are linked by `after`.
    free: u32,
    items: usize,
    marks: usize,
}

struct List {
    hash: u64,
    first: u32,
    last: u32,
}

/// A free node and a mark have no item.
struct Node<T> {
    item: Option<T>,
    before: u32,
    after: u32,
}

#[allow(clippy::cast_possible_truncation, reason = "a slab of 2^32 nodes would take a hundred gigabytes")]
const fn short(index: usize) -> u32 {
    assert!(index < NONE as usize, "a shard takes fewer than 2^32 places");
    index as u32
}

impl<T> Links<T> {
    pub(super) const fn new() -> Self {
        Self { lists: HashTable::new(), nodes: Vec::new(), free: NONE, items: 0, marks: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.items
    }

    /// Adds an item at the end of its list, and returns its index.
    pub(super) fn push(&mut self, hash: u64, item: T) -> usize {
        self.items += 1;
        self.append(hash, Some(item)) as usize
    }

    /// Takes an item out by its index.
    pub(super) fn remove(&mut self, hash: u64, index: usize) -> Option<T> {
        let item = self.nodes.get_mut(index)?.item.take()?;
        self.items -= 1;
        self.unlink(hash, short(index));
        self.give_free(short(index));
        Some(item)
    }

    /// Gives memory back if nearly all of it is free. Then items move, and `moved` learns of each its hash, and what its
    /// index was and is. This takes a constant time for each item that was taken out before.
    pub(super) fn tidy(&mut self, mut moved: impl FnMut(u64, &T, usize, usize)) {
        if self.marks > 0 || self.nodes.len() <= SMALL || self.items > self.nodes.len() / 8 {
            return;
        }
        let mut nodes: Vec<Node<T>> = Vec::with_capacity(self.items * 2);
        for list in &mut self.lists {
            let (mut old, mut before) = (list.first, NONE);
            list.first = short(nodes.len());
            while old != NONE {
                let node = &mut self.nodes[old as usize];
                let (new, next) = (short(nodes.len()), node.after);
                if let Some(item) = &node.item {
                    moved(list.hash, item, old as usize, new as usize);
                }
                let after = if next == NONE { NONE } else { new + 1 };
                nodes.push(Node { item: node.item.take(), before, after });
                (old, before) = (next, new);
            }
            list.last = before;
        }
        (self.nodes, self.free) = (nodes, NONE);
        self.lists.shrink_to(self.items, |list| list.hash);
    }

    fn append(&mut self, hash: u64, item: Option<T>) -> u32 {
        let index = self.take_free(item);
        match self.lists.entry(hash, |list| list.hash == hash, |list| list.hash) {
            Entry::Occupied(mut list) => {
                let last = std::mem::replace(&mut list.get_mut().last, index);
                self.nodes[last as usize].after = index;
                self.nodes[index as usize].before = last;
            }
            Entry::Vacant(place) => _ = place.insert(List { hash, first: index, last: index }),
        }
        index
    }

    /// A node that stands nowhere.
    fn take_free(&mut self, item: Option<T>) -> u32 {
        let index = self.free;
        if index == NONE {
            let index = short(self.nodes.len());
            self.nodes.push(Node { item, before: NONE, after: NONE });
            return index;
        }
        let node = &mut self.nodes[index as usize];
        self.free = std::mem::replace(&mut node.after, NONE);
        (node.item, node.before) = (item, NONE);
        index
    }

    fn give_free(&mut self, index: u32) {
        self.nodes[index as usize].after = std::mem::replace(&mut self.free, index);
    }

    fn unlink(&mut self, hash: u64, index: u32) {
        let Node { before, after, .. } = self.nodes[index as usize];
        if before != NONE {
            self.nodes[before as usize].after = after;
        }
        if after != NONE {
            self.nodes[after as usize].before = before;
        }
        if before != NONE && after != NONE {
            return;
        }
        if let Ok(mut list) = self.lists.find_entry(hash, |list| list.hash == hash) {
            match (before, after) {
                (NONE, NONE) => _ = list.remove(),
                (NONE, first) => list.get_mut().first = first,
                (last, _) => list.get_mut().last = last,
            }
        }
    }

    fn link_before(&mut self, hash: u64, next: u32, index: u32) {
        let before = std::mem::replace(&mut self.nodes[next as usize].before, index);
        let node = &mut self.nodes[index as usize];
        (node.before, node.after) = (before, next);
        if before != NONE {
            self.nodes[before as usize].after = index;
        } else if let Some(list) = self.lists.find_mut(hash, |list| list.hash == hash) {
            list.first = index;
        }
    }
}
