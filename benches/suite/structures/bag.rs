//! Timers in no order, as an unsorted list and each slot of a hashed wheel hold them.

use timingwheel::wheel::Nanos;

use super::timers::Store;

/// Deadlines side by side in memory, so that looking through them is as quick as it can be. Each entry remembers its
/// position, so that taking it out needs no search.
#[derive(Debug, Default)]
pub(super) struct Bag {
    items: Vec<(Nanos, u32)>,
}

/// What the store keeps of a timer in a bag.
#[derive(Debug)]
pub(super) struct Bagged {
    pub(super) payload: u32,
    /// Which of several bags it is in.
    pub(super) bag: usize,
    pub(super) position: usize,
}

impl Bag {
    pub(super) const fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn push(&mut self, deadline: Nanos, index: u32) {
        self.items.push((deadline, index));
    }

    pub(super) fn remove(&mut self, position: usize, store: &mut Store<Bagged>) {
        self.items.swap_remove(position);
        if let Some(&(_, moved)) = self.items.get(position) {
            store.get_mut(moved).position = position;
        }
    }

    /// Looks at every item, and takes out what is due.
    pub(super) fn take_due(&mut self, now: Nanos, store: &mut Store<Bagged>, fired: &mut Vec<u32>) {
        let mut position = 0;
        while let Some(&(deadline, index)) = self.items.get(position) {
            if deadline <= now {
                self.remove(position, store);
                fired.push(store.remove(index).payload);
            } else {
                position += 1;
            }
        }
    }
}
