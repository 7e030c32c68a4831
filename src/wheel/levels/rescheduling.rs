//! Keys whose deadline has changed: whether a key stays in its bucket, and what the bucket has to know.

use super::{Levels, Slot};
use crate::wheel::bucket::Kind;
use crate::wheel::entries::Link;
use crate::wheel::key::Key;
use crate::wheel::nanos::Nanos;
use crate::wheel::place::BucketId;

impl Levels {
    /// A key has got a later deadline. If it lies within the tick of a bucket of level 0, the bucket waits for it. Otherwise
    /// the key moves on when its bucket comes up.
    #[inline(always)]
    pub(in crate::wheel) fn extend(&mut self, id: BucketId, deadline: Nanos) {
        let last = self.bucket(id).expiration;
        if self.is_finest(id)
            && deadline > last
            && self.resolution.tick_of_deadline(deadline) == self.due_tick(last)
        {
            self.buckets[id.as_index()].expiration = deadline;
        }
    }

    /// A key gets an earlier deadline. Returns the bucket's expiration as [`link`](Self::link) does, or `MAX` if the key stays
    /// in a bucket that lies ahead and moves its entries down before that deadline. `None` if the key is stale.
    #[inline(always)]
    pub(in crate::wheel) fn bring_forward(
        &mut self,
        key: Key,
        link: &mut Link,
        deadline: Nanos,
    ) -> Option<Nanos> {
        if !self.moves_down_before(link.place.bucket(), deadline) {
            return self.bring_to_slot(key, link, deadline);
        }
        self.holds(key, link.place).then(|| {
            debug_assert!(deadline <= link.deadline);
            link.deadline = deadline;
            Nanos::MAX
        })
    }

    /// The same, for a key whose bucket would come up too late, or is of level 0. It is a function of its own, so that a key
    /// that stays takes few registers.
    #[inline(never)]
    fn bring_to_slot(&mut self, key: Key, link: &mut Link, deadline: Nanos) -> Option<Nanos> {
        let slot = self.slot_for(deadline);
        if slot.bucket != link.place.bucket() {
            self.unlink(key, link.place)?;
            let (place, expiration) = self.link(key, deadline, slot);
            *link = Link { deadline, place };
            return Some(expiration);
        }
        self.holds(key, link.place).then(|| {
            debug_assert!(deadline <= link.deadline);
            link.deadline = deadline;
            self.shorten(slot, deadline)
        })
    }

    /// Whether a bucket moves its entries down before that deadline, so that an entry with this deadline may wait there.
    #[inline]
    fn moves_down_before(&self, id: BucketId, deadline: Nanos) -> bool {
        let bucket = self.bucket(id);
        bucket.kind == Kind::Overflow && bucket.expiration < deadline
    }

    /// A key has got an earlier deadline that belongs into the same bucket. Returns the bucket's expiration as
    /// [`link`](Self::link) does.
    #[inline]
    pub(in crate::wheel) fn shorten(&mut self, slot: Slot, deadline: Nanos) -> Nanos {
        if slot.level == 0 { self.buckets[slot.bucket.as_index()].wait_for(deadline) } else { Nanos::MAX }
    }
}
