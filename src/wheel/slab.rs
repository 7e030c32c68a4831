//! Entries, and the keys by which their owners find them again.
//!
//! Entries stand in pages, each a `slab::Slab` of its own, so that growing copies no more than one page
//! and a page that empties after a storm gives its memory back.

use std::collections::VecDeque;

use slab::Slab;

use super::bucket::BucketId;
use crate::tick::Nanos;

/// Entries in one page. A power of two, so that an index splits into page and offset by shifting.
const PAGE_LEN: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 10;

/// Names one entry for as long as it is pending.
///
/// A key whose entry was cancelled or handed out is stale: it finds nothing, also when the entry's place
/// has been taken by another, because it carries the number of the insertion that made it. That number has
/// 32 bits, so a key becomes ambiguous only after 4,294,967,296 later insertions into the same hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// Where a bucket holds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: BucketId,
    pub(super) position: u32,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) payload: T,
    pub(super) deadline: Nanos,
    pub(super) place: Place,
    generation: u32,
}

/// All pending entries of a hierarchy.
#[derive(Debug)]
pub(super) struct Entries<T> {
    pages: Vec<Slab<Entry<T>>>,
    /// The pages with a free place, and among them some that gave their memory back.
    with_room: VecDeque<usize>,
    /// The other pages that gave their memory back.
    without_memory: Vec<usize>,
    /// Pages that own memory.
    allocated: usize,
    len: usize,
    next_generation: u32,
}

impl<T> Entries<T> {
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            with_room: VecDeque::new(),
            without_memory: Vec::new(),
            allocated: 0,
            len: 0,
            next_generation: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// How many entries the memory now held has places for.
    pub(super) fn capacity(&self) -> usize {
        self.pages.iter().map(Slab::capacity).sum()
    }

    /// The index that the next entry will get.
    ///
    /// # Panics
    /// If 4,294,967,296 entries are pending: an index has 32 bits.
    pub(super) fn next_index(&mut self) -> u32 {
        let page_number = self.page_with_room();
        join(page_number, self.pages[page_number].vacant_key())
    }

    /// Adds an entry at `index`, which is what [`next_index`](Self::next_index) has just returned.
    pub(super) fn insert(&mut self, index: u32, payload: T, deadline: Nanos, place: Place) -> Key {
        let (page_number, offset) = split(index);
        let page = &mut self.pages[page_number];
        debug_assert_eq!(page.vacant_key(), offset);
        let generation = self.next_generation;
        self.next_generation = generation.wrapping_add(1);
        page.insert(Entry { payload, deadline, place, generation });
        if page.len() == PAGE_LEN {
            self.with_room.pop_front();
        }
        self.len += 1;
        Key { index, generation }
    }

    /// The page to fill, with memory: the one that has had room for longest, so that late comers share it.
    fn page_with_room(&mut self) -> usize {
        while let Some(&page_number) = self.with_room.front() {
            if self.pages[page_number].capacity() > 0 {
                return page_number;
            }
            self.with_room.pop_front();
            self.without_memory.push(page_number);
        }
        let page_number = self.without_memory.pop().unwrap_or_else(|| {
            self.pages.push(Slab::new());
            self.pages.len() - 1
        });
        // The first page grows by doubling, so that a wheel with few timers stays small.
        match page_number {
            0 => self.pages[0].reserve(1),
            _ => self.pages[page_number].reserve_exact(PAGE_LEN),
        }
        self.allocated += 1;
        self.with_room.push_back(page_number);
        page_number
    }

    /// The index of the entry that `key` names, unless the key is stale.
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        let (page_number, offset) = split(key.index);
        let entry = self.pages.get(page_number)?.get(offset)?;
        (entry.generation == key.generation).then_some(key.index)
    }

    /// # Panics
    /// If no entry stands at `index`.
    pub(super) fn get(&self, index: u32) -> &Entry<T> {
        let (page_number, offset) = split(index);
        &self.pages[page_number][offset]
    }

    /// # Panics
    /// If no entry stands at `index`.
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Entry<T> {
        let (page_number, offset) = split(index);
        &mut self.pages[page_number][offset]
    }

    /// # Panics
    /// If no entry stands at `index`.
    pub(super) fn remove(&mut self, index: u32) -> Entry<T> {
        let (page_number, offset) = split(index);
        let page = &mut self.pages[page_number];
        if page.len() == PAGE_LEN {
            self.with_room.push_back(page_number);
        }
        let entry = page.remove(offset);
        self.len -= 1;
        // One page of slack, so that entries coming and going round a border do not allocate each time.
        if page.is_empty() && self.allocated * PAGE_LEN >= self.len + 2 * PAGE_LEN {
            *page = Slab::new();
            self.allocated -= 1;
        }
        entry
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry<T>)> {
        self.pages.iter().enumerate().flat_map(|(page_number, page)| {
            page.iter().map(move |(offset, entry)| (join(page_number, offset), entry))
        })
    }
}

fn join(page_number: usize, offset: usize) -> u32 {
    u32::try_from((page_number << PAGE_BITS) | offset).expect("fewer than 2^32 entries")
}

const fn split(index: u32) -> (usize, usize) {
    ((index >> PAGE_BITS) as usize, index as usize & (PAGE_LEN - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { bucket: BucketId::FIRST, position: 0 };

    fn insert(entries: &mut Entries<usize>, n: usize) -> Key {
        let index = entries.next_index();
        entries.insert(index, n, Nanos(1), PLACE)
    }

    #[test]
    fn a_stale_key_does_not_find_the_entry_that_took_its_place() {
        let mut entries = Entries::new();
        let stale = insert(&mut entries, 1);
        entries.remove(stale.index);
        let fresh = insert(&mut entries, 2);
        assert_eq!(stale.index, fresh.index);
        assert_eq!(entries.find(stale), None);
        assert_eq!(entries.find(fresh), Some(fresh.index));
    }

    #[test]
    fn memory_is_given_back_page_by_page() {
        let mut entries = Entries::new();
        let keys: Vec<Key> = (0..10 * PAGE_LEN).map(|n| insert(&mut entries, n)).collect();
        assert_eq!(entries.capacity(), 10 * PAGE_LEN);
        for (removed, key) in keys.into_iter().enumerate() {
            assert_eq!(entries.remove(key.index).payload, removed);
            assert!(entries.capacity() <= entries.len() + 2 * PAGE_LEN, "{removed} removed");
        }
    }

    #[test]
    fn entries_round_a_border_of_a_page_do_not_allocate_each_time() {
        let mut entries = Entries::new();
        for n in 0..PAGE_LEN {
            insert(&mut entries, n);
        }
        let key = insert(&mut entries, PAGE_LEN);
        let capacity = entries.capacity();
        entries.remove(key.index);
        assert_eq!(entries.capacity(), capacity);
    }

    #[test]
    fn a_few_entries_take_a_few_places() {
        let mut entries = Entries::new();
        insert(&mut entries, 0);
        assert!(entries.capacity() <= 8, "{}", entries.capacity());
    }
}
