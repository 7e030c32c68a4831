//! The items up to the horizon, in order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::items::Items;
use crate::wheel::Nanos;

/// Stale places that there may be, however few items there are.
const STALE: usize = 64;

/// Where an item is to be found among the others of its queue, and in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) deadline: Nanos,
    pub(super) number: u64,
    pub(super) index: usize,
}

impl Place {
    /// Whether the item is still there: otherwise the place is stale.
    fn is_current<T>(&self, items: &Items<T>) -> bool {
        items.get(self.index).is_some_and(|item| {
            item.number == self.number && item.deadline == self.deadline && item.timer.is_none()
        })
    }
}

/// The earlier deadline first, and of the same the one that was inserted first.
impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Places of items, of which some are stale, as their items have been removed or moved since; never the first.
#[derive(Debug, Default)]
pub(super) struct Due {
    heap: BinaryHeap<Reverse<Place>>,
    /// The last deadline put here since there was none.
    last: Nanos,
}

impl Due {
    pub(super) fn push(&mut self, place: Place) {
        self.last = if self.heap.is_empty() { place.deadline } else { self.last.max(place.deadline) };
        self.heap.push(Reverse(place));
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        self.heap.peek().map(|Reverse(first)| *first)
    }

    /// The time from which all of them are due, if there are any. It is not lowered when an item leaves.
    pub(super) fn last_deadline(&self) -> Option<Nanos> {
        (!self.heap.is_empty()).then_some(self.last)
    }

    /// After one of the items has left, so that `current` of them are here: takes stale places away from the front, and
    /// all if they are more than the others.
    #[inline]
    pub(super) fn settle<T>(&mut self, items: &Items<T>, current: usize) {
        while let Some(Reverse(first)) = self.heap.peek()
            && !first.is_current(items)
        {
            self.heap.pop();
        }
        if self.heap.len() > 2 * current + STALE {
            self.sweep(items);
        }
    }

    /// Takes all stale places away.
    #[cold]
    pub(super) fn sweep<T>(&mut self, items: &Items<T>) {
        let mut places = std::mem::take(&mut self.heap).into_vec();
        places.retain(|Reverse(place)| place.is_current(items));
        // An item that was moved away and back has its place twice.
        places.sort_unstable();
        places.dedup();
        self.heap = places.into();
    }

    /// Tells each place the index of its item, which has changed. None of them may be stale.
    pub(super) fn reindex(&mut self, index: impl Fn(&Place) -> usize) {
        let mut places = std::mem::take(&mut self.heap).into_vec();
        places.iter_mut().for_each(|Reverse(place)| place.index = index(place));
        self.heap = places.into();
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.heap.shrink_to_fit();
    }

    /// For tests.
    ///
    /// # Panics
    /// If something does not hold.
    #[cfg(test)]
    pub(super) fn assert_invariants<T>(&self, items: &Items<T>, current: usize) {
        assert!(self.heap.len() <= 2 * current + STALE, "{} places for {current} items", self.heap.len());
        assert!(self.first().is_none_or(|first| first.is_current(items)), "the first is stale");
        let is_later = |Reverse(place): &Reverse<Place>| place.deadline > self.last;
        assert!(!self.heap.iter().any(is_later), "the last deadline is not the last");
    }
}
