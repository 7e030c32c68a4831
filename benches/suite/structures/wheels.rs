//! Wheels: one with rounds, and ours.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

use super::bag::{Bag, Bagged};
use super::timers::{Handle, Store, TICK, Timers};

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
