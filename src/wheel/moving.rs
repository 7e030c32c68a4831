//! Moving an entry to another deadline.

use super::slab::Link;
use super::{Hierarchy, Key, Nanos};

impl<T> Hierarchy<T> {
    /// Moves an entry to another deadline, and tells whether there was one: not if `key` is stale.
    ///
    /// Moving it later leaves it in its bucket until that comes up. A deadline in the past is due in the clock's
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
                link.deadline = deadline;
                Nanos::MAX
            });
        }
        let slot = self.levels.slot_for(deadline);
        let expiration = if slot.bucket == place.bucket() {
            if !self.levels.holds(key, place) {
                return None;
            }
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
