//! What a slot of a level holds.

use super::key::Key;
use crate::tick::Nanos;

/// Room for this many entries stays with an emptied bucket, so that a warm wheel does not allocate.
const KEPT_CAPACITY: usize = 64;

/// What happens to a bucket that comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of level 0: its entries are handed out.
    Finest,
    /// Of an overflow level: its entries move down.
    Overflow,
    /// Of a tolerant level: its entries are handed out, which all have the same deadline.
    Tolerant,
}

/// No position.
const NONE: u32 = u32::MAX;

/// The keys of the entries in one slot.
///
/// That it holds keys, not only indices, is what tells a stale key: an entry says where it stands, and its key has
/// to stand there.
///
/// They are taken from the front, so timers that were armed for the same time in a row fire in that order. It is no
/// promise: where one leaves before its time the next that comes takes its place, and one that comes down from a coarser
/// level stands behind those that were put here at once.
///
/// ```text
///   keys       . . . c d - f -        before the head: taken; "-": vacant
///   head       ------^                position 3
///   vacant     ------------------^    the last that became vacant, where the position of the one before stands
/// ```
///
/// So who leaves touches its own place only. To put the last one there would be to tell that one its new place, which
/// among very many lies in no cache.
#[derive(Debug)]
pub(super) struct Bucket {
    keys: Vec<Key>,
    head: u32,
    /// How many keys stand from the head on.
    len: u32,
    /// The first in the list of vacant positions, or [`NONE`].
    vacant: u32,
    /// Unless it is of an overflow level, the last deadline in the bucket: the moment from which all of it may be
    /// handed out. It is not lowered when that entry leaves, so it can be late, by less than a tick.
    pub(super) last_deadline: Nanos,
    /// Whether the delay queue holds this bucket. An emptied bucket stays there until it comes to the front.
    pub(super) queued: bool,
    pub(super) kind: Kind,
}

// A level has very many.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Bucket>() == 48);

impl Bucket {
    pub(super) const fn new(kind: Kind) -> Self {
        Self {
            keys: Vec::new(),
            head: 0,
            len: 0,
            vacant: NONE,
            last_deadline: Nanos::ZERO,
            queued: false,
            kind,
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    /// The keys with their positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Key)> {
        (0..).zip(self.keys.iter().copied()).skip(self.head as usize).filter(|(_, key)| !key.is_vacancy())
    }

    /// The key at `position`, if one stands there.
    #[inline]
    pub(super) fn get(&self, position: u32) -> Option<Key> {
        if position < self.head { None } else { self.keys.get(position as usize).copied() }
    }

    /// Adds a key, and tells its position.
    ///
    /// # Panics
    /// If the bucket has 4,294,967,296 positions, more than the slab has indices.
    #[inline]
    pub(super) fn push(&mut self, key: Key, deadline: Nanos) -> u32 {
        if self.is_empty() || deadline > self.last_deadline {
            self.last_deadline = deadline;
        }
        self.len += 1;
        // There are never so many keys that `NONE` is a position.
        if let Some(place) = self.keys.get_mut(self.vacant as usize) {
            let position = std::mem::replace(&mut self.vacant, place.next_vacant());
            *place = key;
            position
        } else {
            let position = u32::try_from(self.keys.len()).expect("no more positions than indices");
            self.keys.push(key);
            position
        }
    }

    /// A key has got an earlier deadline, which still may be the last: it may have been one beyond the bucket's tick.
    /// Tells the last of all.
    #[inline]
    pub(super) fn shorten(&mut self, deadline: Nanos) -> Nanos {
        if deadline > self.last_deadline || self.len == 1 {
            self.last_deadline = deadline;
        }
        self.last_deadline
    }

    /// Takes out what stands at up to `most` positions at the front, vacancies too, and gives it to `into`, which tells how
    /// many keys it found. Tells both numbers, that of the positions first.
    #[inline]
    pub(super) fn pop_front(&mut self, most: usize, into: impl FnOnce(&[Key]) -> u32) -> (usize, u32) {
        let held = &self.keys[self.head as usize..];
        let passed = held.len().min(most);
        let taken = into(&held[..passed]);
        self.head += u32::try_from(passed).expect("no more positions than indices");
        self.len -= taken;
        // Some in the list may have been passed. The others are passed when they come up.
        self.vacant = NONE;
        self.clear_if_emptied();
        (passed, taken)
    }

    /// Takes `key` out if it stands at `position`.
    #[inline]
    pub(super) fn take(&mut self, key: Key, position: u32) -> Option<()> {
        let place = self.keys.get_mut(position as usize)?;
        // Keys that were taken from the front are still there to be read.
        if *place != key || position < self.head {
            return None;
        }
        *place = Key::vacancy(self.vacant);
        self.vacant = position;
        self.len -= 1;
        self.clear_if_emptied();
        Some(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pop_front(bucket: &mut Bucket) -> Option<Key> {
        pop_up_to(bucket, 1).pop()
    }

    fn pop_up_to(bucket: &mut Bucket, most: usize) -> Vec<Key> {
        let mut popped = Vec::new();
        bucket.pop_front(most, |positions| {
            popped.extend(positions.iter().filter(|key| !key.is_vacancy()));
            u32::try_from(popped.len()).expect("few")
        });
        popped
    }

    fn key(index: u32) -> Key {
        Key::new(index, 0)
    }

    #[test]
    fn who_comes_takes_the_place_of_who_left_last() {
        let mut bucket = Bucket::new(Kind::Finest);
        for index in [10, 11, 12, 13] {
            bucket.push(key(index), Nanos(1));
        }
        for (index, position) in [(10, 0), (12, 2)] {
            assert_eq!(bucket.take(key(index), position), Some(()));
        }
        assert_eq!((bucket.len(), bucket.iter().collect::<Vec<_>>()), (2, vec![(1, key(11)), (3, key(13))]));
        assert_eq!([14, 15, 16].map(|index| bucket.push(key(index), Nanos(1))), [2, 0, 4]);
        assert_eq!(pop_up_to(&mut bucket, 5), [15, 11, 14, 13, 16].map(key));
        assert!(bucket.is_empty());
    }

    #[test]
    fn a_place_that_was_passed_while_it_was_vacant_is_not_taken() {
        let mut bucket = Bucket::new(Kind::Finest);
        for index in [10, 11, 12] {
            bucket.push(key(index), Nanos(1));
        }
        for (index, position) in [(10, 0), (12, 2)] {
            assert_eq!(bucket.take(key(index), position), Some(()));
        }
        assert_eq!(pop_up_to(&mut bucket, 1), []);
        assert_eq!(bucket.push(key(13), Nanos(1)), 3);
        assert_eq!(pop_up_to(&mut bucket, 4), [11, 13].map(key));
        assert!(bucket.is_empty());
    }

    #[test]
    fn entries_are_taken_from_the_front_also_while_others_come_and_go() {
        let mut bucket = Bucket::new(Kind::Finest);
        for index in [10, 11, 12, 13] {
            bucket.push(key(index), Nanos(1));
        }
        assert_eq!(pop_front(&mut bucket), Some(key(10)));
        assert_eq!(bucket.push(key(14), Nanos(1)), 4);
        assert_eq!(bucket.take(key(12), 2), Some(()));
        assert_eq!(bucket.iter().collect::<Vec<_>>(), [(1, key(11)), (3, key(13)), (4, key(14))]);
        assert_eq!(pop_up_to(&mut bucket, 4), [11, 13, 14].map(key));
        assert_eq!(bucket.push(key(15), Nanos(1)), 0);
    }

    #[test]
    fn a_key_that_does_not_stand_there_is_not_taken() {
        let mut bucket = Bucket::new(Kind::Finest);
        assert_eq!(bucket.take(key(10), 0), None);
        bucket.push(key(10), Nanos(1));
        assert_eq!(bucket.take(key(11), 0), None);
        assert_eq!(bucket.take(Key::new(10, 1), 0), None);
        assert_eq!(bucket.take(key(10), 1), None);
        assert_eq!(bucket.take(key(10), 0), Some(()));
        assert_eq!(bucket.take(key(10), 0), None);
    }

    #[test]
    fn a_key_that_was_taken_from_the_front_is_not_taken_again() {
        let mut bucket = Bucket::new(Kind::Finest);
        for index in [10, 11, 12] {
            bucket.push(key(index), Nanos(1));
        }
        assert_eq!(pop_front(&mut bucket), Some(key(10)));
        assert_eq!((bucket.get(0), bucket.take(key(10), 0)), (None, None));
        assert_eq!((bucket.get(1), bucket.take(key(11), 1)), (Some(key(11)), Some(())));
    }

    #[test]
    fn several_keys_are_taken_from_the_front_in_order() {
        let mut bucket = Bucket::new(Kind::Finest);
        for index in 10..15 {
            bucket.push(key(index), Nanos(1));
        }
        assert_eq!(pop_up_to(&mut bucket, 3), [10, 11, 12].map(key));
        assert_eq!(pop_up_to(&mut bucket, 3), [13, 14].map(key));
        assert!(bucket.is_empty() && pop_up_to(&mut bucket, 3).is_empty());
    }

    #[test]
    fn the_last_deadline_is_that_of_the_entries_since_the_bucket_was_empty() {
        let mut bucket = Bucket::new(Kind::Finest);
        for (deadline, last) in [(5, 5), (7, 7), (6, 7)] {
            bucket.push(key(0), Nanos(deadline));
            assert_eq!(bucket.last_deadline, Nanos(last));
        }
        while pop_front(&mut bucket).is_some() {}
        bucket.push(key(0), Nanos(3));
        assert_eq!(bucket.last_deadline, Nanos(3));
    }

    #[test]
    fn the_only_entry_left_is_the_last_also_after_others_were_taken_from_the_front() {
        let mut bucket = Bucket::new(Kind::Finest);
        for deadline in [5, 9] {
            bucket.push(key(0), Nanos(deadline));
        }
        assert_eq!(bucket.shorten(Nanos(4)), Nanos(9));
        pop_front(&mut bucket);
        assert_eq!(bucket.shorten(Nanos(7)), Nanos(7));
    }

    #[test]
    fn an_emptied_bucket_keeps_little_memory() {
        for (entries, kept) in [(KEPT_CAPACITY, KEPT_CAPACITY), (KEPT_CAPACITY + 1, 0), (1_000, 0)] {
            let mut bucket = Bucket::new(Kind::Finest);
            bucket.keys.reserve_exact(entries);
            for index in 0..u32::try_from(entries).expect("few") {
                bucket.push(key(index), Nanos(1));
            }
            while pop_front(&mut bucket).is_some() {}
            assert_eq!(bucket.keys.capacity(), kept);
        }
    }
}
