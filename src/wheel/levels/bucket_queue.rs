//! The one queue in which the non-empty buckets of all levels stand by the time at which they begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::wheel::nanos::Nanos;
use crate::wheel::place::BucketId;

/// A bucket in the queue, as one number, so that two instructions compare two: the time at which it begins, and below that
/// the complement of its own number.
///
/// If two buckets begin together, the coarser comes first, because its entries may belong into the finer one. The coarser
/// bucket has the greater number, hence the complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::wheel) struct Queued(u128);

impl Queued {
    const fn new(beginning: Nanos, bucket: BucketId) -> Self {
        Self((beginning.0 as u128) << 64 | !bucket.0 as u128)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(in crate::wheel) const fn beginning(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper part is the beginning")]
    pub(in crate::wheel) const fn bucket(self) -> BucketId {
        BucketId(!(self.0 as u32))
    }
}

/// Buckets by the time at which they begin. The caller of `push` makes sure that no bucket stands here twice.
#[derive(Debug, Default)]
pub(super) struct BucketQueue {
    heap: BinaryHeap<Reverse<Queued>>,
}

impl BucketQueue {
    pub(super) fn push(&mut self, beginning: Nanos, bucket: BucketId) {
        self.heap.push(Reverse(Queued::new(beginning, bucket)));
    }

    pub(super) fn front(&self) -> Option<Queued> {
        self.heap.peek().map(|queued| queued.0)
    }

    pub(super) fn pop_front(&mut self) {
        self.heap.pop();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Queued> {
        self.heap.iter().map(|queued| queued.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_two_that_begin_together_the_coarser() {
        let mut queue = BucketQueue::default();
        for (beginning, bucket) in [(20, 1), (10, 3), (10, 128), (10, 69)] {
            queue.push(Nanos(beginning), BucketId(bucket));
        }
        let order: Vec<(u64, u32)> = std::iter::from_fn(|| {
            let front = queue.front()?;
            queue.pop_front();
            Some((front.beginning().0, front.bucket().0))
        })
        .collect();
        assert_eq!(order, [(10, 128), (10, 69), (10, 3), (20, 1)]);
    }
}
