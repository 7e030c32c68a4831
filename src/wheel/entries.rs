//! Entries, the buckets in which their keys stand, and the keys by which owners find them again.
//!
//! An entry knows its place: a bucket, and a position there. A key has the index of its entry. It is stale unless it stands
//! in that entry's place. So entries store no numbers, at no cost: looking a key up reads the bucket anyway.
//!
//! Entries stand in pages, so that growing copies no more than one page, and a page that empties after a storm gives its
//! memory back.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use slab::Slab;

use super::Nanos;

/// Names one entry for as long as it is pending.
///
/// A key whose entry was cancelled or handed out is stale. It finds nothing, even if another entry has got the same index,
/// because a key carries the number of its insertion. That number has 32 bits, so a key becomes ambiguous only after
/// 4,294,967,296 later insertions into the same hierarchy.
// One word with the index below the number, because it is moved in a register then.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// For places that hold no key as yet.
    pub(crate) const PLACEHOLDER: Self = Self::new(0, 0);

    /// An index that no entry has.
    const NO_INDEX: u32 = u32::MAX;

    #[inline]
    pub(super) const fn new(index: u32, insertion: u32) -> Self {
        Self((insertion as u64) << 32 | index as u64)
    }

    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The number of the insertion that made it, from zero on. After the last comes zero again.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(crate) const fn insertion(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The value at a vacant position of a list: it names the next vacant position. No entry has this key's index.
    #[inline]
    pub(crate) const fn vacancy(next: u32) -> Self {
        Self::new(Self::NO_INDEX, next)
    }

    #[inline]
    pub(crate) const fn is_vacancy(self) -> bool {
        self.index() == Self::NO_INDEX
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is the number of the insertion")]
    pub(super) const fn index(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} of insertion {})", self.index(), self.insertion())
    }
}

/// Names a bucket. The buckets of all levels are numbered through as they are made, those of level 0 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BucketId(pub(super) u32);

impl BucketId {
    #[inline]
    pub(super) const fn as_index(self) -> usize {
        self.0 as usize
    }

    /// The bucket so many places further.
    #[inline]
    pub(super) const fn at(self, position: u32) -> Self {
        Self(self.0 + position)
    }

    /// The bucket's word in a list with a bit for each bucket, and its bit there.
    #[inline]
    pub(super) const fn bit(self) -> (usize, u64) {
        (self.as_index() / u64::BITS as usize, 1 << (self.0 % u64::BITS))
    }
}

/// Where a key stands: bucket and position in one word, because it is moved in a register then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    #[inline]
    pub(super) const fn new(bucket: BucketId, position: u32) -> Self {
        Self((bucket.0 as u64) << 32 | position as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(super) const fn bucket(self) -> BucketId {
        BucketId((self.0 >> 32) as u32)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is the bucket")]
    pub(super) const fn position(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}]", self.bucket(), self.position())
    }
}

/// Room for this many keys stays with an emptied bucket, so that a warm wheel does not allocate.
const KEPT_CAPACITY: usize = 64;

/// No position.
const NONE: u32 = u32::MAX;

/// The keys of the entries in one slot of a level.
///
/// Keys are taken from the front, so timers that were armed in a row for the same time fire in that order. That is no
/// promise. If a key leaves before its time, the next key takes its position. And a key that comes down from a coarser
/// level stands behind keys that were put here at once.
///
/// ```text
///   keys       . . . c d - f -        before the head: taken; "-": vacant
///   head       ------^                position 3
///   vacant     ------------------^    the last that became vacant, where the position of the one before stands
/// ```
///
/// So a key that leaves changes its own position only. Moving the last key there would change that key's entry, which among
/// very many lies in no cache.
#[derive(Debug)]
pub(super) struct Bucket {
    keys: Vec<Key>,
    head: u32,
    /// How many keys stand from the head on.
    len: u32,
    /// The first in the list of vacant positions, or [`NONE`].
    vacant: u32,
    /// When the bucket comes up. One of an overflow level does when it begins. One of level 0 does at the last deadline in
    /// it, the moment from which all of it may be handed out. That is not lowered when its entry leaves, so it can be late,
    /// by less than a tick.
    pub(super) expiration: Nanos,
    pub(super) level: u8,
}

impl Bucket {
    pub(super) const fn new(level: u8) -> Self {
        Self { keys: Vec::new(), head: 0, len: 0, vacant: NONE, expiration: Nanos::ZERO, level }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) const fn is_finest(&self) -> bool {
        self.level == 0
    }

    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    /// The keys with their positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Key)> {
        (0..).zip(self.keys.iter().copied()).skip(self.head as usize).filter(|(_, key)| !key.is_vacancy())
    }

    /// Whether `key` stands at `position`.
    #[inline]
    pub(super) fn holds(&self, key: Key, position: u32) -> bool {
        // Keys that were taken from the front are still there to be read.
        position >= self.head && self.keys.get(position as usize) == Some(&key)
    }

    /// Adds a key, and tells its position.
    ///
    /// # Panics
    /// If the bucket has 4,294,967,296 positions, more than there are indices.
    #[inline]
    pub(super) fn push(&mut self, key: Key) -> u32 {
        self.len += 1;
        // There are never so many keys that `NONE` is a position.
        if let Some(place) = self.keys.get_mut(self.vacant as usize) {
            let position = std::mem::replace(&mut self.vacant, place.insertion());
            *place = key;
            position
        } else {
            let position = u32::try_from(self.keys.len()).expect("no more positions than indices");
            self.keys.push(key);
            position
        }
    }

    /// A key has come with this deadline, or has got it in the place of another one, to a bucket of level 0. Tells the last
    /// deadline in it.
    #[inline]
    pub(super) fn wait_for(&mut self, deadline: Nanos) -> Nanos {
        if self.len == 1 || deadline > self.expiration {
            self.expiration = deadline;
        }
        self.expiration
    }

    /// Takes up to `most` positions from the head on, vacancies included, and gives them to `into`. `into` returns how
    /// many of them held keys, and this method returns the same number.
    #[inline]
    pub(super) fn take_first(&mut self, most: usize, into: impl FnOnce(&[Key]) -> usize) -> usize {
        let held = &self.keys[self.head as usize..];
        let passed = held.len().min(most);
        let taken = into(&held[..passed]);
        let narrow = |positions: usize| u32::try_from(positions).expect("no more positions than indices");
        self.head += narrow(passed);
        self.len -= narrow(taken);
        // Some in the list may have been passed. The others are passed when they come up.
        self.vacant = NONE;
        self.clear_if_emptied();
        taken
    }

    /// Takes `key` out, and returns whether it stood at `position`.
    #[inline]
    pub(super) fn take(&mut self, key: Key, position: u32) -> bool {
        let is_there = self.holds(key, position);
        if is_there {
            self.keys[position as usize] = Key::vacancy(self.vacant);
            self.vacant = position;
            self.len -= 1;
            self.clear_if_emptied();
        }
        is_there
    }

    #[inline]
    fn clear_if_emptied(&mut self) {
        if self.is_empty() {
            self.head = 0;
            self.vacant = NONE;
            if self.keys.capacity() > KEPT_CAPACITY {
                self.keys = Vec::new();
            } else {
                self.keys.clear();
            }
        }
    }
}

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

/// All pending entries of a hierarchy, by index.
#[derive(Debug)]
pub(super) struct Entries<T> {
    pages: Vec<Page<T>>,
    /// The pages with memory and a free place.
    with_room: VecDeque<usize>,
    /// The pages that gave their memory back.
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

    /// Adds an entry. `link` is told its key, and returns its link, and something for the caller.
    ///
    /// # Panics
    /// If 4,294,966,272 entries are pending: there are no more indices.
    #[inline]
    pub(super) fn insert_by<R>(&mut self, payload: T, link: impl FnOnce(Key) -> (Link, R)) -> (Key, R) {
        // A page with a single free place, or the page that has had room for longest, so that late timers share it.
        let page_number = self.with_room.front().copied().unwrap_or_else(|| self.allocate_page());
        let Page { payloads, links } = &mut self.pages[page_number];
        let fills_page = payloads.len() + 1 == PAGE_LEN;
        let vacant = payloads.vacant_entry();
        let offset = vacant.key();
        let key = Key::new(join(page_number, offset), self.next_insertion);
        let (link, told) = link(key);
        match links.get_mut(offset) {
            Some(left) => *left = link,
            // The slab's next place is at its end, as it is here.
            None => links.push(link),
        }
        vacant.insert(payload);
        self.next_insertion = self.next_insertion.wrapping_add(1);
        self.len += 1;
        if fills_page {
            self.with_room.pop_front();
        }
        (key, told)
    }

    #[cold]
    fn allocate_page(&mut self) -> usize {
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

    /// The entry at `index`, if there is one, with its link, or the link of the last entry there. `None` if there was none.
    // A caller that uses one of the two reads only that.
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> Option<(Option<&T>, &Link)> {
        let (page_number, offset) = split(index);
        let Page { payloads, links } = self.pages.get(page_number)?;
        Some((payloads.get(offset), links.get(offset)?))
    }

    /// As [`get`](Self::get).
    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<(Option<&mut T>, &mut Link)> {
        let (page_number, offset) = split(index);
        let Page { payloads, links } = self.pages.get_mut(page_number)?;
        Some((payloads.get_mut(offset), links.get_mut(offset)?))
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
            self.free_page(page_number);
        } else if len + 1 >= PAGE_LEN {
            self.note_room(page_number, PAGE_LEN - len + 1);
        }
        payload
    }

    /// After the first or the second place of a page has become free.
    ///
    /// The only free place of a page is the next to be filled, because a caller that replaces an entry has just looked at
    /// it. A page with more free places waits its turn, because a page that is about to empty should not be filled.
    #[cold]
    fn note_room(&mut self, page_number: usize, free: usize) {
        if free == 1 {
            self.with_room.push_front(page_number);
        } else if self.with_room.front() == Some(&page_number) {
            self.with_room.rotate_left(1);
        }
    }

    /// Gives back the memory of an empty page. Its 1,024 removals have paid for the search among the other pages.
    #[cold]
    fn free_page(&mut self, page_number: usize) {
        self.pages[page_number] = Page::EMPTY;
        self.allocated -= 1;
        self.with_room.retain(|&number| number != page_number);
        self.without_memory.push(page_number);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "there are no more pages than indices")]
const fn join(page_number: usize, offset: usize) -> u32 {
    ((page_number << PAGE_BITS) | offset) as u32
}

const fn split(index: u32) -> (usize, usize) {
    ((index >> PAGE_BITS) as usize, index as usize & (PAGE_LEN - 1))
}
