//! The timers of items that have been removed. They are taken out of the wheel together, because at random they lie
//! anywhere in memory, and the processor fetches them at the same time.

use crate::wheel::{Hierarchy, Key};

/// So many are taken out together, and one less may be left.
pub(super) const ROOM: usize = 16;

/// Keys of timers whose items have left.
#[derive(Debug)]
pub(super) struct Leftovers {
    /// The first of them are taken, as many as there are.
    keys: [Option<Key>; ROOM],
    len: usize,
}

impl Leftovers {
    pub(super) const fn new() -> Self {
        Self { keys: [None; ROOM], len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// An item has left whose timer has this key.
    #[inline]
    pub(super) fn push(&mut self, key: Key, timers: &mut Hierarchy<usize>) {
        self.keys[self.len] = Some(key);
        self.len += 1;
        if self.len == ROOM {
            self.take_out(timers);
        }
    }

    /// Takes all of them out of the wheel.
    #[inline]
    pub(super) fn clear(&mut self, timers: &mut Hierarchy<usize>) {
        match self.keys {
            _ if self.len == 0 => {}
            [Some(only), ..] if self.len == 1 => {
                timers.cancel(only);
                self.forget();
            }
            _ => self.take_out(timers),
        }
    }

    #[inline(never)]
    fn take_out(&mut self, timers: &mut Hierarchy<usize>) {
        timers.cancel_all(self.keys);
        self.forget();
    }

    /// Their wheel is gone.
    pub(super) const fn forget(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::{Nanos, Resolution};

    #[test]
    fn leftovers_are_taken_out_when_they_are_many_and_when_they_are_cleared() {
        let mut timers = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let deadlines = 11..;
        let insert = |deadline| timers.insert(Nanos::ZERO, Nanos(deadline), 0).expect("it lies ahead");
        let keys: Vec<Key> = deadlines.take(ROOM + 3).map(insert).collect();

        let mut leftovers = Leftovers::new();
        keys[..ROOM - 1].iter().for_each(|&key| leftovers.push(key, &mut timers));
        assert_eq!((leftovers.len(), timers.len()), (ROOM - 1, ROOM + 3));
        leftovers.push(keys[ROOM - 1], &mut timers);
        assert_eq!((leftovers.len(), timers.len()), (0, 3));
        // One alone, then two.
        for (keys, left) in [(&keys[ROOM..=ROOM], 2), (&keys[ROOM + 1..], 0)] {
            keys.iter().for_each(|&key| leftovers.push(key, &mut timers));
            leftovers.clear(&mut timers);
            assert_eq!((leftovers.len(), timers.len()), (0, left));
        }
        timers.assert_invariants();
    }
}
