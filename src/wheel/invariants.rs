//! What holds between entries and levels at all times, as checks.

use super::{Hierarchy, Key, Nanos};

impl<T> Hierarchy<T> {
    /// After a mutation, in debug builds: the entry stands where it says. As cheap as the mutation.
    pub(super) fn debug_assert_linked(&self, key: Key) {
        debug_assert!(self.find(key).is_some(), "{key:?} does not stand where its entry says");
    }

    /// Whether no bucket that holds something expires before `time`. Takes a look at every bucket in the queue.
    pub(crate) fn expires_no_earlier_than(&self, time: Nanos) -> bool {
        self.levels.expirations().all(|expiration| expiration >= time)
    }

    /// Checks every invariant, in time proportional to everything there is. For tests.
    ///
    /// # Panics
    /// If one does not hold, which is a defect of this crate.
    #[doc(hidden)]
    pub fn assert_invariants(&self) {
        let held = self.levels.assert_invariants();
        assert_eq!(held.len(), self.len());
        for (key, place) in held {
            let link = self.entries.link(key.index()).expect("what is held has a link");
            assert_eq!(link.place, place, "{key:?} stands where its entry does not say");
            assert!(self.levels.may_hold(place.bucket(), link.deadline), "{key:?} waits beyond its deadline");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::Resolution;
    use crate::wheel::entries::Link;

    /// With an entry at 25 and one at 1,000, on two levels.
    fn wheel() -> (Hierarchy<()>, [Key; 2]) {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let keys = [25, 1_000].map(|deadline| wheel.insert(Nanos::ZERO, Nanos(deadline), ()));
        wheel.assert_invariants();
        (wheel, keys.map(|key| key.expect("it lies ahead")))
    }

    #[test]
    fn the_earliest_expiration_is_found_among_all() {
        let (wheel, _) = wheel();
        assert!(wheel.expires_no_earlier_than(Nanos(25)));
        assert!(!wheel.expires_no_earlier_than(Nanos(26)));
    }

    #[test]
    #[should_panic(expected = "waits beyond its deadline")]
    fn an_entry_in_a_bucket_that_is_too_late_for_it_is_noticed() {
        let (mut wheel, [_, far]) = wheel();
        wheel.entries.link_mut(far.index()).deadline = Nanos(500);
        wheel.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "stands where its entry does not say")]
    fn an_entry_that_says_that_it_stands_elsewhere_is_noticed() {
        let (mut wheel, keys) = wheel();
        let [near, far] = keys.map(|key| *wheel.entries.link_mut(key.index()));
        *wheel.entries.link_mut(keys[0].index()) = Link { place: far.place, ..near };
        wheel.assert_invariants();
    }

    // As the check is only there then.
    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "does not stand where its entry says")]
    fn a_mutation_that_leaves_an_entry_astray_is_noticed() {
        let (mut wheel, [near, far]) = wheel();
        let place = wheel.entries.link_mut(far.index()).place;
        wheel.entries.link_mut(near.index()).place = place;
        wheel.debug_assert_linked(near);
    }
}
