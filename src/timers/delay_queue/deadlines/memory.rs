//! The memory of a deadlines, and leaving it without items.

use slab::Slab;

use super::{Deadlines, Place, SLOTS};
use crate::timers::delay_queue::items::Item;
use crate::timers::delay_queue::key::Key;
use crate::wheel::Hierarchy;

impl<T> Deadlines<T> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::{Nanos, Resolution};

    #[test]
    fn emptied_deadlines_keep_no_timers() {
        let mut deadlines = Deadlines::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"));
        let keys: Vec<Key> = (1..=20).map(|n| deadlines.insert(Nanos(1_000 * n), n)).collect();
        let (last, others) = keys.split_last().expect("there are some");
        assert!(others.iter().all(|key| deadlines.remove(key).is_some()));
        assert_eq!((deadlines.items.len(), deadlines.timers.len()), (1, 4));
        deadlines.remove(last).expect("it is there");
        assert_eq!((deadlines.items.len(), deadlines.timers.len()), (0, 0));
    }
}
