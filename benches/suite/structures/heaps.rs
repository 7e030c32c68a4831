//! Binary heaps: one that leaves a stopped timer until its time comes, and one that takes it out at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use timingwheel::wheel::Nanos;

use super::timers::{Handle, Store, Timers};

/// A stop only forgets the payload; what stands in the heap stays there until it comes to the top.
#[derive(Debug)]
pub(crate) struct LazyHeap {
    heap: BinaryHeap<Reverse<(Nanos, Handle)>>,
    payloads: Store<u32>,
}

impl Timers for LazyHeap {
    type Handle = Handle;

    const NAME: &'static str = "heap, lazy removal";

    fn new(timers: usize) -> Self {
        // Twice as many, for those that were stopped: otherwise some start would wait until the heap has moved.
        Self { heap: BinaryHeap::with_capacity(2 * timers), payloads: Store::new() }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Handle {
        let handle = self.payloads.insert(payload);
        self.heap.push(Reverse((deadline, handle)));
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        self.payloads.take(handle).is_some()
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while let Some(&Reverse((deadline, handle))) = self.heap.peek()
            && deadline <= now
        {
            self.heap.pop();
            fired.extend(self.payloads.take(handle));
        }
    }
}

/// Each entry remembers its position in the heap, which every swap writes.
#[derive(Debug)]
pub(crate) struct IndexedHeap {
    /// Deadlines beside the indices, so that comparing does not look into the store.
    heap: Vec<(Nanos, u32)>,
    store: Store<Heaped>,
}

#[derive(Debug)]
struct Heaped {
    payload: u32,
    position: usize,
}

impl IndexedHeap {
    fn put(&mut self, position: usize, item: (Nanos, u32)) {
        self.heap[position] = item;
        self.store.get_mut(item.1).position = position;
    }

    /// Moves `item` up from the hole at `position`, or down, to where it belongs.
    fn settle(&mut self, mut position: usize, item: (Nanos, u32)) {
        while let Some(parent) = position.checked_sub(1).map(|below_root| below_root / 2)
            && item.0 < self.heap[parent].0
        {
            self.put(position, self.heap[parent]);
            position = parent;
        }
        while let Some(child) = self.earlier_child(position)
            && self.heap[child].0 < item.0
        {
            self.put(position, self.heap[child]);
            position = child;
        }
        self.put(position, item);
    }

    fn earlier_child(&self, position: usize) -> Option<usize> {
        let (left, right) = (2 * position + 1, 2 * position + 2);
        let &(left_deadline, _) = self.heap.get(left)?;
        let is_right = self.heap.get(right).is_some_and(|&(deadline, _)| deadline < left_deadline);
        Some(if is_right { right } else { left })
    }

    fn remove_at(&mut self, position: usize) {
        let last = self.heap.pop().expect("there is an item at the position");
        if position < self.heap.len() {
            self.settle(position, last);
        }
    }
}

impl Timers for IndexedHeap {
    type Handle = Handle;

    const NAME: &'static str = "heap, removal at once";

    fn new(_timers: usize) -> Self {
        Self { heap: Vec::new(), store: Store::new() }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Handle {
        let position = self.heap.len();
        let handle = self.store.insert(Heaped { payload, position });
        self.heap.push((deadline, handle.index));
        self.settle(position, (deadline, handle.index));
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        let Some(entry) = self.store.take(handle) else { return false };
        self.remove_at(entry.position);
        true
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while let Some(&(deadline, index)) = self.heap.first()
            && deadline <= now
        {
            fired.push(self.store.remove(index).payload);
            self.remove_at(0);
        }
    }
}
