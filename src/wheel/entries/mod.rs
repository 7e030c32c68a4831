//! The entries, by index.
//!
//! A key has the index of its entry, but nothing here compares keys. A key is stale unless it stands in the
//! [bucket](super::bucket) that its entry names.
//!
//! Entries stand in pages, so that growing copies no more than one page and a page that empties after a storm gives
//! its memory back.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use slab::{Slab, VacantEntry};

use super::key::Key;
use super::place::Place;
use crate::wheel::nanos::Nanos;

/// Entries in one page. A power of two, so that an index splits into page and offset by shifting.
const PAGE_LEN: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 10;
/// An index has 32 bits, and the last one names no entry.
const MAX_PAGES: usize = (1 << (32 - PAGE_BITS)) - 1;
/// There are indices for so many entries.
pub(crate) const MAX_ENTRIES: usize = MAX_PAGES * PAGE_LEN;

/// The deadline of an entry, and its place in the levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) deadline: Nanos,
    pub(super) place: Place,
}

/// Payload and link stand apart: moving entries from bucket to bucket does not touch payloads.
#[derive(Debug)]
struct Page<T> {
    payloads: Slab<T>,
    /// The links, by the same offsets. A vacant place has the link of the entry that was there last.
    links: Vec<Link>,
}

/// All pending entries of a hierarchy.
#[derive(Debug)]
pub(super) struct Entries<T> {
    pages: Vec<Page<T>>,
    /// The pages with a free place, and among them some that gave their memory back.
    with_room: VecDeque<usize>,
    /// The other pages that gave their memory back.
    without_memory: Vec<usize>,
    /// Pages that own memory.
    allocated: usize,
    len: usize,
    next_insertion: u32,
}

impl<T> Page<T> {
    const EMPTY: Self = Self { payloads: Slab::new(), links: Vec::new() };
}

impl<T> Entries<T> {
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            with_room: VecDeque::new(),
            without_memory: Vec::new(),
            allocated: 0,
            len: 0,
            next_insertion: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// For how many entries there is memory.
    pub(super) fn capacity(&self) -> usize {
        self.pages.iter().map(|page| page.payloads.capacity()).sum()
    }

    /// A place for one more entry.
    ///
    /// # Panics
    /// If 4,294,966,272 entries are pending: there are no more indices.
    #[inline]
    pub(super) fn vacant(&mut self) -> Vacant<'_, T> {
        let page_number = self.page_with_room();
        let Page { payloads, links } = &mut self.pages[page_number];
        let fills_page = payloads.len() + 1 == PAGE_LEN;
        let place = payloads.vacant_entry();
        let key = Key::new(join(page_number, place.key()), self.next_insertion);
        Vacant {
            key,
            place,
            links,
            with_room: fills_page.then_some(&mut self.with_room),
            next_insertion: &mut self.next_insertion,
            len: &mut self.len,
        }
    }

    /// The page to fill, with memory: a page with a single free place, or the one that has had room for longest, so that
    /// late timers share it.
    #[inline]
    fn page_with_room(&mut self) -> usize {
        match self.with_room.front() {
            Some(&page_number) if self.pages[page_number].payloads.capacity() > 0 => page_number,
            _ => self.find_page_with_room(),
        }
    }

    #[cold]
    fn find_page_with_room(&mut self) -> usize {
        while let Some(&page_number) = self.with_room.front() {
            if self.pages[page_number].payloads.capacity() > 0 {
                return page_number;
            }
            self.with_room.pop_front();
            self.without_memory.push(page_number);
        }
        let page_number = self.without_memory.pop().unwrap_or_else(|| {
            assert!(
                self.pages.len() < MAX_PAGES,
                "a wheel with {} entries: it holds at most {MAX_ENTRIES}",
                self.len
            );
            self.pages.push(Page::EMPTY);
            self.pages.len() - 1
        });
        let Page { payloads, links } = &mut self.pages[page_number];
        // The first page grows by doubling, so that a wheel with few timers stays small.
        if page_number == 0 {
            payloads.reserve(1);
        } else {
            payloads.reserve_exact(PAGE_LEN);
            links.reserve_exact(PAGE_LEN);
        }
        self.allocated += 1;
        self.with_room.push_back(page_number);
        page_number
    }

    /// The link of the entry at `index`, or of the last that was there; `None` if there is no memory for one.
    #[inline]
    pub(super) fn link(&self, index: u32) -> Option<&Link> {
        let (page_number, offset) = split(index);
        self.pages.get(page_number)?.links.get(offset)
    }

    /// Where the entry at `index` stands, if there is one.
    #[inline]
    pub(super) fn place(&self, index: u32) -> Option<Place> {
        let (page_number, offset) = split(index);
        let Page { payloads, links } = self.pages.get(page_number)?;
        payloads.contains(offset).then(|| links.get(offset).map(|link| link.place)).flatten()
    }

    /// As [`link`](Self::link).
    #[inline]
    pub(super) fn get_link_mut(&mut self, index: u32) -> Option<&mut Link> {
        let (page_number, offset) = split(index);
        self.pages.get_mut(page_number)?.links.get_mut(offset)
    }

    /// The entry at `index`, if there is one.
    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<(&mut T, &mut Link)> {
        let (page_number, offset) = split(index);
        let Page { payloads, links } = self.pages.get_mut(page_number)?;
        Some((payloads.get_mut(offset)?, links.get_mut(offset)?))
    }

    /// # Panics
    /// If no entry ever stood at `index`.
    #[inline]
    pub(super) fn link_mut(&mut self, index: u32) -> &mut Link {
        let (page_number, offset) = split(index);
        &mut self.pages[page_number].links[offset]
    }

    /// Has the processor fetch the payloads at these indices at the same time, before a caller takes them out one by one.
    #[inline]
    pub(super) fn fetch_payloads(&self, indices: impl Iterator<Item = u32>) {
        let stands = |index| {
            let (page_number, offset) = split(index);
            self.pages[page_number].payloads.contains(offset)
        };
        // Or the compiler would leave the reads out.
        std::hint::black_box(indices.filter(|&index| stands(index)).count());
    }

    /// Panics as [`payload_mut`](Self::payload_mut) does.
    pub(super) fn payload(&self, index: u32) -> &T {
        let (page_number, offset) = split(index);
        &self.pages[page_number].payloads[offset]
    }

    /// # Panics
    /// If no entry stands at `index`.
    pub(super) fn payload_mut(&mut self, index: u32) -> &mut T {
        let (page_number, offset) = split(index);
        &mut self.pages[page_number].payloads[offset]
    }

    /// # Panics
    /// If no entry stands at `index`.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let (page_number, offset) = split(index);
        let page = &mut self.pages[page_number];
        let len = page.payloads.len();
        let payload = page.payloads.remove(offset);
        self.len -= 1;
        // One page of slack, so that an entry that comes and goes at the border of a page does not allocate each time.
        if page.payloads.is_empty() && self.allocated * PAGE_LEN >= self.len + 2 * PAGE_LEN {
            self.free(page_number);
        }
        if len + 1 >= PAGE_LEN {
            self.note_room(page_number, PAGE_LEN - len + 1);
        }
        payload
    }

    /// After the first or the second place of a page has become free.
    ///
    /// The only free place of a page is the next to be filled, because a caller that replaces an entry has just looked at it.
    /// A page with more free places waits its turn, because a page that is about to empty should not be filled.
    #[cold]
    fn note_room(&mut self, page_number: usize, free: usize) {
        if free == 1 {
            self.with_room.push_front(page_number);
        } else if self.with_room.front() == Some(&page_number) {
            self.with_room.rotate_left(1);
        }
    }

    /// Gives back the memory of an empty page.
    #[cold]
    fn free(&mut self, page_number: usize) {
        self.pages[page_number] = Page::EMPTY;
        self.allocated -= 1;
    }
}

/// A place for one entry.
pub(super) struct Vacant<'a, T> {
    key: Key,
    place: VacantEntry<'a, T>,
    links: &'a mut Vec<Link>,
    /// The pages with room, if this entry fills its page.
    with_room: Option<&'a mut VecDeque<usize>>,
    next_insertion: &'a mut u32,
    len: &'a mut usize,
}

impl<T> Vacant<'_, T> {
    /// The key that the entry will have.
    #[inline]
    pub(super) const fn key(&self) -> Key {
        self.key
    }

    #[inline]
    pub(super) fn insert(self, payload: T, link: Link) {
        match self.links.get_mut(self.place.key()) {
            Some(vacant) => *vacant = link,
            // The slab's next place is at its end, as it is here.
            None => self.links.push(link),
        }
        self.place.insert(payload);
        *self.next_insertion = self.next_insertion.wrapping_add(1);
        *self.len += 1;
        if let Some(with_room) = self.with_room {
            with_room.pop_front();
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "there are no more pages than indices")]
const fn join(page_number: usize, offset: usize) -> u32 {
    ((page_number << PAGE_BITS) | offset) as u32
}

const fn split(index: u32) -> (usize, usize) {
    ((index >> PAGE_BITS) as usize, index as usize & (PAGE_LEN - 1))
}
