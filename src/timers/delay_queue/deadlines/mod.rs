//! The pure part: which item comes next, and when to look again. It is told what time it is.
//!
//! An item stands on one of two sides of the horizon, the end of the tick that was looked at last:
//!
//! ```text
//!             now: told last          the horizon: the end of its tick
//!  ----------------|-------------------------|------------------------------> deadlines
//!    to be popped  |  later in this tick     |   `timers`, a wheel that holds indices
//!   \________ `due`, a heap, in order ______/
//! ```
//!
//! So what is popped comes in the order of deadlines, although a wheel knows no order within a tick. Whoever waits is
//! to look again at the last deadline in the tick, not at each: that takes one wake-up for a tick, and no item is
//! late by more.

mod memory;

use super::due::{Due, Place};
use super::items::{Item, Items};
use super::key::Key;
use super::leftovers::Leftovers;
use super::timer::Timer;
use crate::wheel::{Hierarchy, Nanos, Progress, Resolution};

/// How many slots the levels of the timers have.
const SLOTS: usize = 64;

/// So few items may be looked at whenever somebody waits.
const FEW: usize = 8;

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An item is due: [`Deadlines::pop`] has it.
    Due,
    /// As many timers have been moved as were asked for, and there are more.
    More,
    /// To wait until this time, if nothing changes. It may be earlier than the next item's.
    Until(Nanos),
    /// There is no item.
    Empty,
}

/// Items by deadline.
#[derive(Debug)]
pub(super) struct Deadlines<T> {
    items: Items<T>,
    /// By index, the items that are due after the horizon. This wheel's clock is the horizon.
    timers: Hierarchy<usize>,
    /// The timers of items that have been removed.
    leftovers: Leftovers,
    /// The other items.
    due: Due,
    /// The time that was told last.
    now: Nanos,
    /// What the timers hand out, and where it goes. Empty between calls; they keep their memory.
    handed_out: Vec<usize>,
    places: Vec<Place>,
}

impl<T> Deadlines<T> {
    pub(super) fn new(resolution: Resolution) -> Self {
        Self {
            items: Items::new(),
            timers: Hierarchy::new(resolution, SLOTS),
            leftovers: Leftovers::new(),
            due: Due::default(),
            now: Nanos::ZERO,
            handed_out: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Gives an empty deadlines another clock, which may have another origin. Keys differ from all there were.
    pub(super) fn restart(&mut self, resolution: Resolution, now: Nanos) {
        debug_assert_eq!(self.items.len(), 0);
        self.timers = Hierarchy::new(resolution, SLOTS);
        self.leftovers.forget();
        self.now = now;
    }

    pub(super) const fn items(&self) -> &Items<T> {
        &self.items
    }

    pub(super) const fn items_mut(&mut self) -> &mut Items<T> {
        &mut self.items
    }

    pub(super) const fn now(&self) -> Nanos {
        self.now
    }

    /// Sets the time. A clock that goes back is taken to stand still.
    #[inline]
    pub(super) fn set_now(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// Whether whoever looks again at `time` is in time for `deadline`: then, or later in its tick.
    #[inline]
    pub(super) fn is_in_time(&self, time: Nanos, deadline: Nanos) -> bool {
        time <= self.end_of_tick(deadline)
    }

    /// Adds an item.
    ///
    /// # Panics
    /// If there are as many as a queue can hold.
    #[inline]
    #[track_caller]
    pub(super) fn insert(&mut self, deadline: Nanos, value: T) -> Key {
        let Key { number, index } = self.items.insert(deadline, value);
        let place = Place { deadline, number, index };
        match self.leftovers.take_over(index) {
            Some(timer) => self.move_timer(place, timer),
            None => self.put(place),
        }
        Key { number, index }
    }

    /// Puts an item without a timer on its side of the horizon.
    #[inline]
    fn put(&mut self, place: Place) {
        // The wheel takes what is overdue only if it is not told that it is.
        let now = if place.deadline > self.now { self.now } else { Nanos::ZERO };
        match self.timers.insert(now, place.deadline, place.index) {
            Ok(key) => {
                self.items.at_mut(place.index).timer = Some(Timer { key, deadline: place.deadline });
            }
            Err(_) => self.due.push(place),
        }
    }

    /// Moves an item to another deadline, and tells whether `key` names one.
    #[inline]
    pub(super) fn reset(&mut self, key: &Key, deadline: Nanos) -> bool {
        let Some(index) = self.items.find(key) else { return false };
        let item = self.items.at_mut(index);
        item.deadline = deadline;
        let place = Place { deadline, number: key.number, index };
        match item.timer {
            // It is put back when its timer has come: so nothing but the item is looked at.
            Some(timer) if deadline >= timer.deadline => {}
            Some(timer) => self.move_timer(place, timer),
            None => {
                self.put(place);
                self.settle_due();
            }
        }
        true
    }

    /// Gives an item a timer, and moves that to its deadline.
    #[inline]
    fn move_timer(&mut self, place: Place, timer: Timer) {
        let Place { deadline, index, number: _ } = place;
        let item = self.items.at_mut(index);
        if deadline >= timer.deadline {
            item.timer = Some(timer);
        } else if deadline > self.timers.clock() {
            item.timer = Some(Timer { deadline, ..timer });
            self.timers.bring_forward(timer.key, deadline);
        } else {
            item.timer = None;
            self.timers.cancel(timer.key);
            self.due.push(place);
        }
    }

    /// Takes an item out, unless `key` is stale.
    #[inline]
    pub(super) fn remove(&mut self, key: &Key) -> Option<Item<T>> {
        let index = self.items.find(key)?;
        let item = self.items.remove(index);
        match item.timer {
            Some(timer) => self.leftovers.push(index, timer, &mut self.timers),
            None => self.settle_due(),
        }
        // An empty queue keeps no memory for timers, and nobody may ever poll it again.
        if self.items.len() == 0 {
            self.leftovers.clear(&mut self.timers);
        }
        Some(item)
    }

    /// What there is to do at the time that was told last. Moves up to about `batch` timers.
    #[inline]
    pub(super) fn next_step(&mut self, batch: usize) -> Next {
        match self.due.first() {
            // Up to the horizon there is nothing among the timers that could come before it.
            Some(first) if first.deadline <= self.horizon() => Next::Due,
            _ => self.move_horizon(batch),
        }
    }

    /// The time told, or the last by which all timers have come, whichever is earlier.
    #[inline]
    fn horizon(&self) -> Nanos {
        self.now.min(self.timers.handed_out_through())
    }

    fn move_horizon(&mut self, batch: usize) -> Next {
        self.leftovers.clear(&mut self.timers);
        let end = self.end_of_tick(self.now);
        if self.timers.clock() < end || self.timers.next_expiration().is_some_and(|next| next <= end) {
            let mut handed_out = std::mem::take(&mut self.handed_out);
            let mut places = std::mem::take(&mut self.places);
            let progress = self.timers.advance(end, batch, &mut handed_out);
            // All items are looked at before the first is put anywhere: they lie scattered, and so the processor waits
            // for several at a time.
            places.extend(handed_out.drain(..).map(|index| {
                let item = self.items.at_mut(index);
                item.timer = None;
                Place { deadline: item.deadline, number: item.number, index }
            }));
            for place in places.drain(..) {
                if place.deadline > end { self.put(place) } else { self.due.push(place) }
            }
            self.handed_out = handed_out;
            self.places = places;
            if progress == Progress::More {
                return Next::More;
            }
            if self.due.first().is_some_and(|first| first.deadline <= self.now) {
                return Next::Due;
            }
        }
        let until = self.due.last_deadline().or_else(|| self.next_timer());
        debug_assert!(until.is_none_or(|until| until > self.now));
        until.map_or(Next::Empty, Next::Until)
    }

    /// When to look at the timers again: where there are few, when the first item is due, so that nobody is woken to move
    /// one down; where there are many, when the first bucket begins, which is known without a look at them.
    fn next_timer(&mut self) -> Option<Nanos> {
        let begins = self.timers.next_expiration()?;
        if self.timers.len() > FEW {
            return Some(begins);
        }
        let deadline = |&index: &usize| self.items.at(index).deadline;
        let first = self.timers.earliest_by(|index| Some((deadline(index), ()))).map(deadline);
        // A bucket of one tick begins, for this, with the last deadline in it.
        first.map(|first| first.max(begins))
    }

    #[inline]
    fn end_of_tick(&self, time: Nanos) -> Nanos {
        self.timers.resolution().end_of_tick(time)
    }

    /// Takes the first item out, with its key, if it is due: after [`Next::Due`] it is.
    pub(super) fn pop(&mut self) -> Option<(Key, Item<T>)> {
        let Place { deadline, number, index } = self.due.first()?;
        if deadline > self.horizon() {
            return None;
        }
        let item = self.items.remove(index);
        // Its place is stale now.
        self.settle_due();
        Some((Key { number, index }, item))
    }

    /// The key of the item that will be popped next, if nothing changes.
    pub(super) fn peek(&self) -> Option<Key> {
        let due = self.due.first();
        let timer = match due {
            Some(first) if first.deadline <= self.timers.handed_out_through() => None,
            _ => self.timers.earliest_by(|&index| {
                // The index of a removed item is empty, or has another item, whose own deadline is a candidate too.
                let Item { deadline, number, .. } = self.items.get(index)?;
                Some((*deadline, *number))
            }),
        };
        let timer = timer.map(|&index| {
            let Item { deadline, number, .. } = self.items.at(index);
            Place { deadline: *deadline, number: *number, index }
        });
        let Place { deadline: _, number, index } = due.into_iter().chain(timer).min()?;
        Some(Key { number, index })
    }

    /// After an item has left the due.
    #[inline]
    fn settle_due(&mut self) {
        self.due.settle(&self.items, self.items_due());
    }

    /// How many items are among the due.
    #[inline]
    fn items_due(&self) -> usize {
        self.items.len() - (self.timers.len() - self.leftovers.len())
    }

    /// For tests.
    ///
    /// # Panics
    /// If something does not hold.
    #[cfg(test)]
    pub(super) fn assert_invariants(&self) {
        self.timers.assert_invariants();
        self.due.assert_invariants(&self.items, self.items_due());
    }
}
