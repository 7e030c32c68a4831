//! The structures: a heap, a tree and wheels. Before them the trait through which they are measured, and the store of
//! those that need one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use slab::Slab;
use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

// What all structures have in common: the trait they are measured through, and the store of those that need one.

/// A tick of the wheels, and the step by which the others are turned.
pub(crate) const TICK: Nanos = Nanos(1_000_000);

/// A structure that holds timers, each with a number as its payload.
pub(crate) trait Timers {
    /// Names a timer that was started. One whose timer has fired or was stopped names nothing.
    type Handle: Copy;

    const NAME: &'static str;

    /// For so many timers at a time, those that were stopped not counted.
    fn new(timers: usize) -> Self;

    /// Starts a timer. `deadline` is after `now`.
    fn start(&mut self, now: Nanos, deadline: Nanos, payload: u32) -> Self::Handle;

    /// Stops a timer, and tells whether there was one.
    fn stop(&mut self, handle: Self::Handle) -> bool;

    /// Appends the payloads of all timers that are due at `now`.
    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>);
}

/// Entries by index, each with the number of its start, so that a stale handle finds nothing. All structures but the
/// ordered map keep their timers in such a store, so that what differs is how they order them.
#[derive(Debug)]
pub(super) struct Store<E> {
    entries: Slab<Stored<E>>,
    starts: u64,
}

#[derive(Debug)]
struct Stored<E> {
    serial: u64,
    entry: E,
}

/// The handle of a [`Store`]'s entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    serial: u64,
    pub(super) index: u32,
}

impl<E> Store<E> {
    pub(super) const fn new() -> Self {
        Self { entries: Slab::new(), starts: 0 }
    }

    pub(super) fn insert(&mut self, entry: E) -> Handle {
        let serial = self.starts;
        self.starts += 1;
        let index = self.entries.insert(Stored { serial, entry });
        Handle { serial, index: u32::try_from(index).expect("fewer than 2^32 timers") }
    }

    pub(super) fn remove(&mut self, index: u32) -> E {
        self.entries.remove(index as usize).entry
    }

    /// Takes the entry out, if the handle is not stale.
    pub(super) fn take(&mut self, handle: Handle) -> Option<E> {
        let stored = self.entries.get(handle.index as usize)?;
        (stored.serial == handle.serial).then(|| self.remove(handle.index))
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut E {
        &mut self.entries[index as usize].entry
    }
}

// Timers in no order, as each slot of a hashed wheel holds them.

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

// A binary heap, which leaves a stopped timer until its time comes.

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

// A balanced tree: std's `BTreeMap`.

/// By deadline, and by the number of the start where deadlines are equal.
#[derive(Debug)]
pub(crate) struct OrderedMap {
    timers: BTreeMap<(Nanos, u64), u32>,
    starts: u64,
}

impl Timers for OrderedMap {
    type Handle = (Nanos, u64);

    const NAME: &'static str = "ordered map";

    fn new(_timers: usize) -> Self {
        Self { timers: BTreeMap::new(), starts: 0 }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Self::Handle {
        let handle = (deadline, self.starts);
        self.starts += 1;
        self.timers.insert(handle, payload);
        handle
    }

    fn stop(&mut self, handle: Self::Handle) -> bool {
        self.timers.remove(&handle).is_some()
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            fired.push(first.remove());
        }
    }
}

// Wheels: one with rounds, and ours.

/// As many slots as Netty's wheel has if nothing is set.
const HASHED_SLOTS: usize = 512;
/// As many slots in a level as our wheel has if nothing is set.
pub(crate) const DEFAULT_SLOTS: usize = 64;
/// Entries handed out in one go; as there is no lock to let go of, any number does.
const BATCH: usize = 1024;

/// One ring of slots. A deadline beyond the ring waits in its slot for as many rounds as it takes, so each tick looks
/// at all timers of a slot: scheme 6 of Varghese and Lauck. Slots are not sorted.
#[derive(Debug)]
pub(crate) struct HashedWheel {
    slots: Vec<Bag>,
    store: Store<Bagged>,
    /// The tick up to which the wheel has been turned.
    tick: u64,
}

/// The slot of a tick.
fn slot(tick: u64) -> usize {
    usize::try_from(tick % HASHED_SLOTS as u64).expect("less than the number of slots")
}

impl Timers for HashedWheel {
    type Handle = Handle;

    const NAME: &'static str = "hashed wheel, 512 slots";

    fn new(_timers: usize) -> Self {
        Self { slots: (0..HASHED_SLOTS).map(|_| Bag::default()).collect(), store: Store::new(), tick: 0 }
    }

    fn start(&mut self, _now: Nanos, deadline: Nanos, payload: u32) -> Handle {
        // Rounds up, so that nothing is early.
        let bag = slot(deadline.0.div_ceil(TICK.0).max(self.tick + 1));
        let position = self.slots[bag].len();
        let handle = self.store.insert(Bagged { payload, bag, position });
        self.slots[bag].push(deadline, handle.index);
        handle
    }

    fn stop(&mut self, handle: Handle) -> bool {
        let Some(entry) = self.store.take(handle) else { return false };
        self.slots[entry.bag].remove(entry.position, &mut self.store);
        true
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while self.tick < now.0 / TICK.0 {
            self.tick += 1;
            self.slots[slot(self.tick)].take_due(Nanos(self.tick * TICK.0), &mut self.store, fired);
        }
    }
}

/// [`Hierarchy`], by itself.
#[derive(Debug)]
pub(crate) struct OurWheel<const SLOTS: usize> {
    hierarchy: Hierarchy<u32>,
}

impl<const SLOTS: usize> Timers for OurWheel<SLOTS> {
    type Handle = Key;

    const NAME: &'static str = "timingwheel::wheel::Hierarchy";

    fn new(_timers: usize) -> Self {
        let resolution = Resolution::new(Duration::from_nanos(TICK.0)).expect("a tick is not zero");
        Self { hierarchy: Hierarchy::new(resolution, SLOTS) }
    }

    fn start(&mut self, now: Nanos, deadline: Nanos, payload: u32) -> Key {
        self.hierarchy.insert(now, deadline, payload).expect("the deadline is after now")
    }

    fn stop(&mut self, handle: Key) -> bool {
        self.hierarchy.cancel(handle).is_some()
    }

    fn advance(&mut self, now: Nanos, fired: &mut Vec<u32>) {
        while self.hierarchy.advance(now, BATCH, fired) == Progress::More {}
    }
}
