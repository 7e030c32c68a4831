//! The items of a list in order, in slots. A slot whose item has left stays for a while.

use std::collections::VecDeque;

use super::{FIRST, SMALL};

pub(super) struct Row<T> {
    /// By number. The first one is not empty.
    slots: VecDeque<Slot<T>>,
    items: usize,
    /// The number of the next item.
    next: u64,
}

struct Slot<T> {
    number: u64,
    item: Option<T>,
}

/// How many slots are looked at under one hold of the lock.
const LOOKS: usize = 1_024;

impl<T> Row<T> {
    /// A row of one item, which gives out numbers from `next` on.
    pub(super) fn new(first: T, next: u64) -> Self {
        Self { slots: VecDeque::from([Slot { number: FIRST, item: Some(first) }]), items: 1, next }
    }

    pub(super) fn push(&mut self, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.items += 1;
        self.slots.push_back(Slot { number, item: Some(item) });
        number
    }

    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let nth = self.find(number);
        let slot = self.slots.get_mut(nth).filter(|slot| slot.number == number)?;
        let item = slot.item.take()?;
        self.items -= 1;
        while self.slots.front().is_some_and(|first| first.item.is_none()) {
            self.slots.pop_front();
        }
        if self.slots.len() > SMALL && self.items < self.slots.len() / 8 {
            self.slots.retain(|slot| slot.item.is_some());
        }
        if self.room() > SMALL && self.slots.len() < self.room() / 8 {
            self.slots.shrink_to(2 * self.slots.len());
        }
        Some(item)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// For how many slots there is memory.
    pub(super) fn room(&self) -> usize {
        self.slots.capacity()
    }

    /// The number of the next item.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// The only item.
    pub(super) fn only(&self) -> Option<&T> {
        if self.items > 1 { None } else { self.slots.front()?.item.as_ref() }
    }

    /// Shows the items with numbers in `from..end` in their order, with their numbers, until one is not wanted. Returns the
    /// number to go on from, if there may be more.
    pub(super) fn show(
        &self,
        from: u64,
        end: u64,
        mut is_wanted: impl FnMut(u64, &T) -> bool,
    ) -> Option<u64> {
        let from = self.find(from);
        for Slot { number, item } in self.slots.range(from..).take(LOOKS) {
            if *number >= end {
                return None;
            }
            if let Some(item) = item
                && !is_wanted(*number, item)
            {
                return Some(*number);
            }
        }
        self.slots.get(from + LOOKS).map(|slot| slot.number).filter(|&number| number < end)
    }

    /// Where the first slot stands whose number is no smaller.
    fn find(&self, number: u64) -> usize {
        // Numbers are without gaps since empty slots were given back last. A walk over all lists may come with a number that
        // this row has not given out yet: one of another row, which stood at this place of the table before.
        let behind = usize::try_from(self.next.saturating_sub(number)).unwrap_or(usize::MAX);
        let guess = self.slots.len().checked_sub(behind);
        guess
            .filter(|&nth| self.slots.get(nth).is_some_and(|slot| slot.number == number))
            .unwrap_or_else(|| self.slots.partition_point(|slot| slot.number < number))
    }
}
