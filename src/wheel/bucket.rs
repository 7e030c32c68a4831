//! What a slot of a level holds.

use crate::tick::Nanos;

/// Room for this many entries stays with an emptied bucket, so that a warm wheel does not allocate.
const KEPT_CAPACITY: usize = 64;

/// Names a bucket: its level and its slot in that level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BucketId {
    pub(super) level: u8,
    pub(super) slot: u16,
}

impl BucketId {
    #[cfg(test)]
    pub(super) const FIRST: Self = Self { level: 0, slot: 0 };
}

/// The indices of the entries in one slot.
///
/// They are taken from the front, so timers that were armed for the same time in a row fire in that order. It is no
/// promise: where one leaves before its time the last takes its place, and one that comes down from a coarser level
/// stands behind those that were put here at once.
///
/// ```text
///   entries    . . . c d e f        before the head: taken
///   head       ------^              position 3
/// ```
#[derive(Debug, Default)]
pub(super) struct Bucket {
    entries: Vec<u32>,
    head: u32,
    /// On level 0, the last deadline in the bucket: the moment from which all of it may be handed out.
    /// It is not lowered when that entry leaves, so it can be late, by less than a tick.
    pub(super) last_deadline: Nanos,
    /// Whether the delay queue holds this bucket. An emptied bucket stays there until it comes to the front.
    pub(super) queued: bool,
}

impl Bucket {
    pub(super) fn is_empty(&self) -> bool {
        // An emptied bucket is cleared.
        self.entries.is_empty()
    }

    /// The entries with their positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        self.entries.iter().copied().enumerate().skip(self.head as usize)
    }

    /// The entry at `position`, if one stands there.
    pub(super) fn get(&self, position: u32) -> Option<u32> {
        if position < self.head { None } else { self.entries.get(position as usize).copied() }
    }

    /// Adds an entry, and tells its position.
    ///
    /// # Panics
    /// If the bucket holds 4,294,967,296 entries, which the slab has no indices for.
    pub(super) fn push(&mut self, index: u32, deadline: Nanos) -> u32 {
        if self.is_empty() || deadline > self.last_deadline {
            self.last_deadline = deadline;
        }
        let position = u32::try_from(self.entries.len()).expect("no more entries than indices");
        self.entries.push(index);
        position
    }

    /// Takes the first entry out.
    pub(super) fn pop_front(&mut self) -> Option<u32> {
        let index = self.entries.get(self.head as usize).copied()?;
        self.head += 1;
        self.clear_if_emptied();
        Some(index)
    }

    /// Takes the entry at `position` out, and tells which entry, if any, stands there now.
    ///
    /// # Panics
    /// If nothing stands at `position`.
    pub(super) fn swap_remove(&mut self, position: u32) -> Option<u32> {
        debug_assert!(position >= self.head, "position {position} was taken");
        self.entries.swap_remove(position as usize);
        let moved = self.entries.get(position as usize).copied();
        self.clear_if_emptied();
        moved
    }

    fn clear_if_emptied(&mut self) {
        if self.head as usize == self.entries.len() {
            self.head = 0;
            if self.entries.capacity() > KEPT_CAPACITY {
                self.entries = Vec::new();
            } else {
                self.entries.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_takes_the_place_of_the_one_that_leaves() {
        let mut bucket = Bucket::default();
        for index in [10, 11, 12] {
            bucket.push(index, Nanos(1));
        }
        assert_eq!(bucket.swap_remove(0), Some(12));
        assert_eq!(bucket.swap_remove(1), None);
        assert_eq!(bucket.pop_front(), Some(12));
        assert!(bucket.is_empty());
    }

    #[test]
    fn entries_are_taken_from_the_front_also_while_others_come_and_go() {
        let mut bucket = Bucket::default();
        for index in [10, 11, 12, 13] {
            bucket.push(index, Nanos(1));
        }
        assert_eq!(bucket.pop_front(), Some(10));
        assert_eq!(bucket.push(14, Nanos(1)), 4);
        assert_eq!(bucket.swap_remove(2), Some(14));
        assert_eq!(bucket.iter().collect::<Vec<_>>(), [(1, 11), (2, 14), (3, 13)]);
        assert_eq!(std::iter::from_fn(|| bucket.pop_front()).collect::<Vec<_>>(), [11, 14, 13]);
        assert_eq!(bucket.push(15, Nanos(1)), 0);
    }

    #[test]
    fn the_last_deadline_is_that_of_the_entries_since_the_bucket_was_empty() {
        let mut bucket = Bucket::default();
        for (deadline, last) in [(5, 5), (7, 7), (6, 7)] {
            bucket.push(0, Nanos(deadline));
            assert_eq!(bucket.last_deadline, Nanos(last));
        }
        while bucket.pop_front().is_some() {}
        bucket.push(0, Nanos(3));
        assert_eq!(bucket.last_deadline, Nanos(3));
    }

    #[test]
    fn an_emptied_bucket_keeps_little_memory() {
        let mut bucket = Bucket::default();
        for index in 0..1_000 {
            bucket.push(index, Nanos(1));
        }
        while bucket.pop_front().is_some() {}
        assert!(bucket.entries.capacity() <= KEPT_CAPACITY);
    }
}
