//! Overflow levels, which are made when a deadline first needs them.

use super::Levels;
use crate::wheel::bucket::{Bucket, Kind};
use crate::wheel::place::BucketId;

impl Levels {
    /// Makes the next coarser level.
    #[cold]
    pub(super) fn overflow(&mut self) {
        let coarsest = self.levels.last().expect("level 0 is made at once");
        let level = coarsest.overflow(self.clock_tick, self.next_bucket());
        self.levels.push(level);
        self.make_buckets(self.slots, Kind::Overflow);
    }

    /// The name of the next bucket to be made.
    pub(super) fn next_bucket(&self) -> BucketId {
        BucketId(u32::try_from(self.buckets.len()).expect("at most 64 levels of 2^16 slots, and some of 64"))
    }

    pub(super) fn make_buckets(&mut self, count: u32, kind: Kind) {
        // There are few levels, so copying them is cheaper than room for as many again.
        self.buckets.reserve_exact(count as usize);
        self.buckets.resize_with(self.buckets.len() + count as usize, || Bucket::new(kind));
    }
}
