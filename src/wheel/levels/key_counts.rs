//! How many keys stand on each level.

use std::ops::Range;

use super::Levels;
use super::tolerant::SLOTS;
use crate::wheel::bucket::Bucket;

impl Levels {
    /// How many buckets the levels have together.
    pub(in crate::wheel) const fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The buckets of each level, with its number or `None` for a tolerant one, as far as they lie in `range`.
    pub(in crate::wheel) fn of_levels(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (Option<usize>, Range<usize>)> {
        let exact = self.levels.iter().enumerate();
        let exact = exact.map(|(number, level)| (Some(number), level.first_bucket(), self.slots));
        let tolerant = self.tolerant.first_buckets().map(|first| (None, first, SLOTS));
        exact.chain(tolerant).filter_map(move |(level, first, slots)| {
            let end = first.as_index() + slots as usize;
            let buckets = first.as_index().max(range.start)..end.min(range.end);
            (!buckets.is_empty()).then_some((level, buckets))
        })
    }

    /// How many keys stand in those buckets.
    pub(in crate::wheel) fn len_of(&self, buckets: Range<usize>) -> usize {
        self.buckets[buckets].iter().map(Bucket::len).sum()
    }
}
