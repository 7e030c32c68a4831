//! Buckets: the keys of the entries in one slot of a level.

#[cfg(test)]
mod tests;

use super::key::Key;
use crate::wheel::nanos::Nanos;

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
/// A bucket holds keys, not only indices, because that shows whether a key is stale: an entry knows its position, and the
/// key has to stand there.
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
    /// When the bucket comes up. One of an overflow level does when it begins; any other at the last deadline in it, the
    /// moment from which all of it may be handed out. That is not lowered when its entry leaves, so it can be late, by
    /// less than a tick.
    pub(super) expiration: Nanos,
    /// Whether the delay queue holds this bucket. An emptied bucket stays there until it comes to the front.
    pub(super) queued: bool,
    pub(super) kind: Kind,
}

impl Bucket {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { keys: Vec::new(), head: 0, len: 0, vacant: NONE, expiration: Nanos::ZERO, queued: false, kind }
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
    pub(super) fn push(&mut self, key: Key) -> u32 {
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

    /// A key has come with this deadline, or has got it in the place of an earlier or a later one, to a bucket that comes
    /// up with the last deadline in it. Tells which that is.
    #[inline]
    pub(super) fn wait_for(&mut self, deadline: Nanos) -> Nanos {
        if self.len == 1 || deadline > self.expiration {
            self.expiration = deadline;
        }
        self.expiration
    }

    /// Takes out what stands at up to `most` positions at the front, vacancies too, and gives it to `into`, which tells how
    /// many keys it found, and so does this.
    #[inline]
    pub(super) fn pop_front(&mut self, most: usize, into: impl FnOnce(&[Key]) -> u32) -> u32 {
        let held = &self.keys[self.head as usize..];
        let passed = held.len().min(most);
        let taken = into(&held[..passed]);
        self.head += u32::try_from(passed).expect("no more positions than indices");
        self.len -= taken;
        // Some in the list may have been passed. The others are passed when they come up.
        self.vacant = NONE;
        self.clear_if_emptied();
        taken
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
