//! Moving an entry to another deadline.

use super::bucket::Kind;
use super::{Hierarchy, Key, Nanos};

impl<T> Hierarchy<T> {
    /// Moves an entry to another deadline. Returns `false` if `key` is stale.
    ///
    /// An entry that moves later stays in its bucket until that bucket comes up. An entry that moves earlier stays too,
    /// if its bucket comes up before the new deadline and moves its entries down. An entry whose new deadline has
    /// passed moves to the bucket of the clock's tick. The next [`advance`](Self::advance) hands it out, unless that
    /// bucket waits for a later deadline in the same tick.
    pub fn reschedule(&mut self, key: Key, deadline: Nanos) -> bool {
        match self.find(key) {
            Some(link) if deadline < link.deadline => self.bring_forward(key, deadline).is_some(),
            Some(_) => self.postpone(key, deadline),
            None => false,
        }
    }

    /// As [`reschedule`](Self::reschedule), of an exact entry and if its payload is as wanted. Tells the bucket's
    /// expiration as [`insert_and_tell`](Self::insert_and_tell) does, or `MAX` for an entry that stays where it is.
    #[inline(always)]
    pub(crate) fn reschedule_if(
        &mut self,
        now: Nanos,
        key: Key,
        deadline: Nanos,
        is_wanted: impl FnOnce(&mut T) -> bool,
    ) -> Option<Nanos> {
        let (payload, link) = self.entries.get_mut(key.index())?;
        let bucket = link.place.bucket();
        let is_exact = self.levels.kind(bucket) != Kind::Tolerant;
        if !(self.levels.holds(key, link.place) && is_exact && is_wanted(payload)) {
            return None;
        }
        if deadline < link.deadline {
            self.levels.catch_up(now);
            let expiration = self.bring_forward(key, deadline);
            debug_assert!(expiration.is_some(), "it is held");
            return expiration;
        }
        link.deadline = deadline;
        self.levels.extend(bucket, deadline);
        Some(Nanos::MAX)
    }

    /// As [`reschedule`](Self::reschedule), for a deadline that is not earlier than the entry's.
    #[inline(always)]
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
    /// expiration as [`insert_and_tell`](Self::insert_and_tell) does, or `MAX` for an entry that stays in a bucket which
    /// lies ahead and moves its entries down before that deadline.
    #[inline(always)]
    pub(crate) fn bring_forward(&mut self, key: Key, deadline: Nanos) -> Option<Nanos> {
        let link = self.entries.get_link_mut(key.index())?;
        let expiration = self.levels.bring_forward(key, link, deadline)?;
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
    fn an_entry_that_is_moved_after_idle_time_starts_at_level_0() {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let key = wheel.insert(Nanos::ZERO, Nanos(50_000), 7).expect("it lies ahead");
        assert_eq!(wheel.reschedule_if(Nanos(4_000), key, Nanos(4_015), |payload| *payload == 8), None);
        let expiration = wheel.reschedule_if(Nanos(4_000), key, Nanos(4_015), |payload| *payload == 7);
        assert_eq!((expiration, wheel.next_expiration()), (Some(Nanos(4_015)), Some(Nanos(4_015))));
        wheel.assert_invariants();
    }

    #[test]
    fn an_entry_that_is_moved_within_its_tick_is_waited_for() {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let key = wheel.insert(Nanos::ZERO, Nanos(13), ()).expect("it lies ahead");
        for deadline in [18, 15, 16].map(Nanos) {
            assert!(wheel.reschedule_if(Nanos::ZERO, key, deadline, |_| true).is_some());
            assert_eq!(wheel.next_expiration(), Some(deadline));
        }
    }

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
