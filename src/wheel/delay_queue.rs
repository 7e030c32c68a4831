//! The one queue in which the non-empty buckets of all levels stand by the time at which they begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bucket::BucketId;
use crate::tick::Nanos;

/// A bucket in the queue.
///
/// Of two that begin together the coarser comes first, because what it holds may belong into the finer one.
/// (The derived order goes by the fields from the top; it is turned round twice, here for the level and in
/// the heap for all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Queued {
    pub(super) beginning: Nanos,
    level: Reverse<u8>,
    slot: u16,
}

impl Queued {
    pub(super) const fn bucket(self) -> BucketId {
        BucketId { level: self.level.0, slot: self.slot }
    }
}

/// Buckets by their beginning. Whoever pushes sees to it that none stands here twice.
#[derive(Debug, Default)]
pub(super) struct DelayQueue {
    heap: BinaryHeap<Reverse<Queued>>,
}

impl DelayQueue {
    pub(super) fn push(&mut self, beginning: Nanos, bucket: BucketId) {
        self.heap.push(Reverse(Queued { beginning, level: Reverse(bucket.level), slot: bucket.slot }));
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
        let mut queue = DelayQueue::default();
        for (beginning, level, slot) in [(20, 0, 1), (10, 0, 3), (10, 2, 0), (10, 1, 5)] {
            queue.push(Nanos(beginning), BucketId { level, slot });
        }
        let order: Vec<(u64, u8)> = std::iter::from_fn(|| {
            let front = queue.front()?;
            queue.pop_front();
            Some((front.beginning.0, front.bucket().level))
        })
        .collect();
        assert_eq!(order, [(10, 2), (10, 1), (10, 0), (20, 0)]);
    }
}
