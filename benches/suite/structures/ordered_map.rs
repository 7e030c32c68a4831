//! A balanced tree: std's `BTreeMap`.

use std::collections::BTreeMap;

use timingwheel::wheel::Nanos;

use super::timers::Timers;

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
