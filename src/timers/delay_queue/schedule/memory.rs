//! The memory of a schedule, and leaving it without items.

use slab::Slab;

use super::{Place, SLOTS, Schedule};
use crate::timers::delay_queue::items::Item;
use crate::timers::delay_queue::key::Key;
use crate::wheel::Hierarchy;

impl<T> Schedule<T> {
    pub(in crate::timers::delay_queue) fn shrink_to_fit(&mut self) {
        self.leftovers.clear(&mut self.timers);
        self.items.shrink_to_fit();
        self.due.sweep(&self.items);
        self.due.shrink_to_fit();
        self.handed_out.shrink_to_fit();
        self.places.shrink_to_fit();
    }

    /// Moves items together, so that they take no more memory than they have to.
    pub(in crate::timers::delay_queue) fn compact(&mut self) {
        let Self { items, timers, due, .. } = self;
        due.sweep(items);
        items.compact(|item, to| {
            if let Some(index) = item.timer.and_then(|timer| timers.get_mut(timer.key)) {
                *index = to;
            }
        });
        due.reindex(|&Place { deadline: _, number, index }| {
            items.find(&Key { number, index }).expect("no place is stale after a sweep")
        });
        self.shrink_to_fit();
    }

    /// Leaves no item, and returns what they were in, with room for as many: dropping them is code of a user's.
    pub(in crate::timers::delay_queue) fn detach(&mut self) -> Slab<Item<T>> {
        self.timers = Hierarchy::new(self.timers.resolution(), SLOTS);
        self.leftovers.forget();
        self.due.clear();
        self.items.detach()
    }
}
