//! Keys whose deadline has changed: whether a key stays in its bucket, and what the bucket has to know.
//!
//! A key that moves from an overflow level to an earlier slot does not go there at once. It waits in one bucket, which
//! comes up together with the bucket that is next anyway, and goes on from there. Until then the key stays also when it
//! moves again.
//!
//! ```text
//!                  next             a's slot      before
//!   ----------------|------------------|------------|-----> time
//!     waits here ---^                  ^            ^
//!                   `-- goes there ----'            |
//!                       a is moved to earlier ------'
//! ```

use super::{Levels, Slot};
use crate::wheel::bucket::Kind;
use crate::wheel::key::Key;
use crate::wheel::place::{BucketId, Place};
use crate::wheel::slab::Link;
use crate::wheel::tick::Nanos;

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
        if self.kind(link.place.bucket()) == Kind::Overflow
            && let Some(id) = self.waiting_before(deadline)
        {
            self.unlink(key, link.place)?;
            let bucket = &mut self.buckets[id.as_index()];
            *link = Link { deadline, place: Place::new(id, bucket.push(key)) };
            return Some(bucket.expiration);
        }
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

    /// The bucket in which moved keys wait, if it comes up before that deadline.
    #[inline]
    fn waiting_before(&mut self, deadline: Nanos) -> Option<BucketId> {
        let id = match self.waiting {
            Some(id) if self.bucket(id).queued => id,
            _ => self.queue_waiting(deadline)?,
        };
        (self.bucket(id).expiration < deadline).then_some(id)
    }

    /// Puts that bucket beside the one that is next, if this is before the deadline.
    #[cold]
    fn queue_waiting(&mut self, deadline: Nanos) -> Option<BucketId> {
        let (front, expiration) = self.front()?;
        // Not in the past, where an entry may have been moved that is next: so whatever waits lies ahead of the clock.
        let expiration = expiration.filter(|&at| (self.elapsed.0..deadline.0).contains(&at.0))?;
        let id = self.waiting.unwrap_or_else(|| {
            let id = self.next_bucket();
            self.make_buckets(1, Kind::Overflow);
            id
        });
        self.waiting = Some(id);
        let bucket = &mut self.buckets[id.as_index()];
        (bucket.queued, bucket.expiration) = (true, expiration);
        self.queue.push(front.beginning(), id);
        Some(id)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

    /// With an entry at 25 and others, in a tick of 10.
    fn with<const N: usize>(deadlines: [u64; N]) -> (Hierarchy<u64>, [Key; N]) {
        let mut wheel = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        wheel.insert(Nanos::ZERO, Nanos(25), 0).expect("it lies ahead");
        let insert = |deadline| wheel.insert(Nanos::ZERO, Nanos(deadline), deadline).expect("it lies ahead");
        let keys = deadlines.map(insert);
        (wheel, keys)
    }

    fn handed_out(wheel: &mut Hierarchy<u64>, now: u64) -> Vec<u64> {
        let mut expired = Vec::new();
        assert_eq!(wheel.advance(Nanos(now), usize::MAX, &mut expired), Progress::Done);
        wheel.assert_invariants();
        expired
    }

    #[test]
    fn what_moves_to_an_earlier_slot_goes_there_when_the_next_bucket_comes_up() {
        let (mut wheel, [far]) = with([50_000]);
        for earlier in [20_000, 9_000, 30_000, 4_017] {
            assert!(wheel.reschedule(far, Nanos(earlier)));
            wheel.assert_invariants();
            // It waits, as one of level 0, and no earlier time is looked for.
            assert_eq!((wheel.next_expiration(), wheel.len_by_level()), (Some(Nanos(25)), vec![2, 0, 0]));
        }
        assert_eq!(handed_out(&mut wheel, 25), [0]);
        assert_eq!((wheel.cascaded(), wheel.len_by_level()), (1, vec![0, 1, 0]));
        assert_eq!(handed_out(&mut wheel, 4_016), []);
        assert_eq!(handed_out(&mut wheel, 4_017), [50_000]);
    }

    #[test]
    fn what_is_due_before_the_next_bucket_comes_up_goes_to_its_slot_at_once() {
        let (mut wheel, keys) = with([50_000, 60_000, 70_000]);
        for (key, earlier) in keys.into_iter().zip([30_000, 25, 12]) {
            assert!(wheel.reschedule(key, Nanos(earlier)));
        }
        // From where it waits, too.
        assert!(wheel.reschedule(keys[0], Nanos(18)));
        assert_eq!((wheel.next_expiration(), wheel.cascaded()), (Some(Nanos(18)), 0));
        assert_eq!(handed_out(&mut wheel, 18), [70_000, 50_000]);
        assert_eq!(handed_out(&mut wheel, 25), [0, 60_000]);
    }

    #[test]
    fn what_waits_beside_an_entry_that_is_cancelled_is_not_forgotten() {
        let (mut wheel, [next, far]) = with([22, 50_000]);
        assert_eq!(handed_out(&mut wheel, 5), []);
        assert!(wheel.reschedule(far, Nanos(3_000)));
        assert_eq!(wheel.cancel(next), Some(22));
        let zero = wheel.insert(Nanos::ZERO, Nanos(700), 700).expect("it lies ahead");
        assert_eq!(handed_out(&mut wheel, 25), [0]);
        assert_eq!(handed_out(&mut wheel, 2_999), [700]);
        assert_eq!((wheel.cancel(zero), handed_out(&mut wheel, 3_000)), (None, vec![50_000]));
    }

    #[test]
    fn a_place_where_nothing_waits_any_more_is_used_again() {
        let (mut wheel, keys) = with([50_000, 60_000]);
        assert!(wheel.reschedule(keys[0], Nanos(3_000)));
        assert_eq!(wheel.cancel(keys[0]), Some(50_000));
        wheel.assert_invariants();
        assert!(wheel.reschedule(keys[1], Nanos(4_000)));
        assert_eq!(handed_out(&mut wheel, 25), [0]);
        assert_eq!((handed_out(&mut wheel, 3_999), handed_out(&mut wheel, 4_000)), (vec![], vec![60_000]));
    }
}
