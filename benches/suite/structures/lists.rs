//! Lists: one that is not sorted, and one that is.

use timingwheel::wheel::Nanos;

use super::bag::{Bag, Bagged};
use super::timers::{Handle, Store, Timers};

/// Start and stop are quick, and each tick looks at all timers: scheme 1 of Varghese and Lauck.
#[derive(Debug)]
pub(crate) struct UnsortedList {
    bag: Bag,
    store: Store<Bagged>,
}

impl Timers for UnsortedList {
    type Handle = Handle;

    const NAME: &'static str = "unsorted list";

    fn new(_timers: usize) -> Self {
        Self { bag: Bag::default(), store: Store::new() }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Handle {
        let position = self.bag.len();
        let handle = self.store.insert(Bagged { payload, bag: 0, position });
        self.bag.push(deadline, handle.index);
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        let Some(entry) = self.store.take(handle) else { return false };
        self.bag.remove(entry.position, &mut self.store);
        true
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        self.bag.take_due(now, &mut self.store, fired);
    }
}

/// A tick looks at the front only, and a start walks from the back to where the timer belongs: scheme 2.
///
/// Linked through the store, so that a stop needs no search.
#[derive(Debug)]
pub(crate) struct SortedList {
    store: Store<Node>,
    front: Option<u32>,
    back: Option<u32>,
}

#[derive(Debug)]
struct Node {
    deadline: Nanos,
    payload: u32,
    previous: Option<u32>,
    next: Option<u32>,
}

impl SortedList {
    /// Where what stands before a place is told its next.
    fn next_of(&mut self, previous: Option<u32>) -> &mut Option<u32> {
        match previous {
            Some(index) => &mut self.store.get_mut(index).next,
            None => &mut self.front,
        }
    }

    fn previous_of(&mut self, next: Option<u32>) -> &mut Option<u32> {
        match next {
            Some(index) => &mut self.store.get_mut(index).previous,
            None => &mut self.back,
        }
    }

    fn unlink(&mut self, Node { previous, next, .. }: &Node) {
        *self.next_of(*previous) = *next;
        *self.previous_of(*next) = *previous;
    }
}

impl Timers for SortedList {
    type Handle = Handle;

    const NAME: &'static str = "sorted list";

    fn new(_timers: usize) -> Self {
        Self { store: Store::new(), front: None, back: None }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Handle {
        let mut previous = self.back;
        let mut next = None;
        while let Some(index) = previous
            && let node = self.store.get(index)
            && node.deadline > deadline
        {
            next = previous;
            previous = node.previous;
        }
        let handle = self.store.insert(Node { deadline, payload, previous, next });
        *self.next_of(previous) = Some(handle.index);
        *self.previous_of(next) = Some(handle.index);
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        let Some(node) = self.store.take(handle) else { return false };
        self.unlink(&node);
        true
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while let Some(index) = self.front
            && self.store.get(index).deadline <= now
        {
            let node = self.store.remove(index);
            self.unlink(&node);
            fired.push(node.payload);
        }
    }
}
