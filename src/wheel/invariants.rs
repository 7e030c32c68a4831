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
