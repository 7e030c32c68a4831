//! Moving an entry to another deadline.

use super::slab::Link;
use super::{Hierarchy, Key, Nanos};

impl<T> Hierarchy<T> {
    /// Moves an entry to another deadline, and tells whether there was one: not if `key` is stale.
    ///
    /// Moving it later leaves it in its bucket until that comes up, and so does moving it earlier where that bucket comes
    /// up before the new deadline, to move its entries down. A deadline in the past is due in the clock's
    /// tick: with the next [`advance`](Self::advance), or with the last deadline in that tick if that is later.
    pub fn reschedule(&mut self, key: Key, deadline: Nanos) -> bool {
        match self.find(key) {
            Some(link) if deadline < link.deadline => self.bring_forward(key, deadline).is_some(),
            Some(_) => self.postpone(key, deadline),
            None => false,
        }
    }

    /// As [`reschedule`](Self::reschedule), for a deadline that is not earlier than the entry's.
    #[inline]
    pub(crate) fn postpone(&mut self, key: Key, deadline: Nanos) -> bool {
        let Some(link) = self.entries.get_link_mut(key.index()) else { return false };
        if !self.levels.holds(key, link.place) {
            return false;
        }
        debug_assert!(deadline >= link.deadline);
        link.deadline = deadline;
        self.levels.extend(link.place.bucket(), deadline);
        true
    }

    /// As [`reschedule`](Self::reschedule), for a deadline that is not later than the entry's. Tells the bucket's
    /// expiration as [`insert_and_tell`](Self::insert_and_tell) does, or `MAX` for an entry that stays where it is.
    #[inline]
    pub(crate) fn bring_forward(&mut self, key: Key, deadline: Nanos) -> Option<Nanos> {
        let link = self.entries.get_link_mut(key.index())?;
        let place = link.place;
        if self.levels.moves_down_before(place.bucket(), deadline) {
            return self.levels.holds(key, place).then(|| {
                debug_assert!(deadline <= link.deadline);
                link.deadline = deadline;
                Nanos::MAX
            });
        }
        let slot = self.levels.slot_for(deadline);
        let expiration = if slot.bucket == place.bucket() {
            if !self.levels.holds(key, place) {
                return None;
            }
            debug_assert!(deadline <= link.deadline);
            link.deadline = deadline;
            self.levels.shorten(slot, deadline)
        } else {
            self.levels.unlink(key, place)?;
            let (place, expiration) = self.levels.link(key, deadline, slot);
            *link = Link { deadline, place };
            expiration
        };
        self.debug_assert_linked(key);
        Some(expiration)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::Resolution;

    #[test]
    fn a_stale_key_moves_nobody() {
        // In a bucket that comes up before, within a bucket of level 0, and to another bucket.
        for (deadline, earlier) in [(5_000, 4_600), (18, 15), (18, 5)].map(|(a, b)| (Nanos(a), Nanos(b))) {
            let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
            let stale = wheel.insert(Nanos::ZERO, deadline, ()).expect("it lies ahead");
            wheel.cancel(stale);
            assert_eq!((wheel.bring_forward(stale, earlier), wheel.postpone(stale, deadline)), (None, false));
            let key = wheel.insert(Nanos::ZERO, deadline, ()).expect("it lies ahead");
            assert_eq!(key.index(), stale.index());
            assert_eq!(wheel.bring_forward(stale, earlier), None);
            assert!(!wheel.postpone(stale, Nanos(6_000)));
            assert_eq!(wheel.find(key).map(|link| link.deadline), Some(deadline));
            wheel.assert_invariants();
        }
    }
}
