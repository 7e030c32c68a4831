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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::{Nanos, Resolution};

    #[test]
    fn an_emptied_schedule_keeps_no_timers() {
        let mut schedule = Schedule::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"));
        let keys: Vec<Key> = (1..=20).map(|n| schedule.insert(Nanos(1_000 * n), n)).collect();
        let (last, others) = keys.split_last().expect("there are some");
        assert!(others.iter().all(|key| schedule.remove(key).is_some()));
        assert_eq!((schedule.items.len(), schedule.timers.len()), (1, 4));
        schedule.remove(last).expect("it is there");
        assert_eq!((schedule.items.len(), schedule.timers.len()), (0, 0));
    }
}
