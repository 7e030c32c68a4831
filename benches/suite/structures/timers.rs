//! What all structures have in common: the trait they are measured through, and the store of those that need one.

use slab::Slab;
use timingwheel::wheel::Nanos;

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

    pub(super) fn get(&self, index: u32) -> &E {
        &self.entries[index as usize].entry
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut E {
        &mut self.entries[index as usize].entry
    }
}
