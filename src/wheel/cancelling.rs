//! Taking entries out before they are due.

use super::{Hierarchy, Key};

impl<T> Hierarchy<T> {
    /// Takes an entry out. Returns `None` if `key` is stale, because its entry was handed out or cancelled.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        self.unlink(key)?;
        Some(self.entries.remove(key.index()))
    }

    /// As [`cancel`](Self::cancel), for several entries. They lie anywhere in memory, and the processor fetches them at the
    /// same time.
    pub(crate) fn cancel_all<const N: usize>(&mut self, keys: [Option<Key>; N]) -> [Option<T>; N] {
        let places = keys.map(|key| key.and_then(|key| Some((key, self.entries.place(key.index())?))));
        let held = places.map(|placed| placed.filter(|&(key, place)| self.levels.holds(key, place)));
        held.map(|placed| {
            let (key, place) = placed?;
            // Not again, of a key that is there twice.
            self.levels.unlink(key, place)?;
            Some(self.entries.remove(key.index()))
        })
    }

    /// Takes a key out of its place, unless it is stale.
    #[inline(always)]
    pub(super) fn unlink(&mut self, key: Key) -> Option<()> {
        let place = self.entries.link(key.index())?.place;
        self.levels.unlink(key, place)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::{Nanos, Resolution};

    #[test]
    fn of_several_keys_those_that_are_not_stale_take_their_entries_out() {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let mut insert = |deadline| wheel.insert(Nanos::ZERO, Nanos(deadline), deadline).expect("not due");
        // Three in a bucket, one in another.
        let [a, stale, b, far, _left] = [11, 12, 13, 5_000, 14].map(&mut insert);
        assert_eq!(wheel.cancel(stale), Some(12));
        let never_made = Key::new(1 << 20, 0);

        let keys = [Some(far), None, Some(stale), Some(b), Some(never_made), Some(a), Some(b)];
        assert_eq!(wheel.cancel_all(keys), [Some(5_000), None, None, Some(13), None, Some(11), None]);
        assert_eq!((wheel.len(), wheel.next_expiration()), (1, Some(Nanos(14))));
        wheel.assert_invariants();
    }
}
