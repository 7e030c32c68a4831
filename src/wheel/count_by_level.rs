//! How many entries stand on each level.

use super::{Hierarchy, Key};

/// How many entries stand where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// On each level, level 0 first.
    pub(crate) by_level: Vec<usize>,
    /// On all tolerant levels.
    pub(crate) tolerant: usize,
}

impl Census {
    fn of(&mut self, level: Option<usize>) -> &mut usize {
        match level {
            Some(level) => &mut self.by_level[level],
            None => &mut self.tolerant,
        }
    }
}

impl<T> Hierarchy<T> {
    /// How many entries stand on each level, level 0 first. Entries with a tolerance stand on levels of their own. This
    /// looks at every slot.
    ///
    /// Keeping these numbers instead would cost each insertion and cancellation, which are many, for the few callers who
    /// ask.
    #[must_use]
    pub fn len_by_level(&self) -> Vec<usize> {
        let mut census = Census::default();
        self.add_to_census(&mut census, 0, usize::MAX, &[]);
        census.by_level
    }

    /// Counts what stands in `most` buckets from number `from` on, but for the entries of the keys `but`. Tells where
    /// to go on, if there are more: a caller who holds a lock can let go of it in between.
    pub(crate) fn add_to_census(
        &self,
        census: &mut Census,
        from: usize,
        most: usize,
        but: &[Key],
    ) -> Option<usize> {
        census.by_level.resize(self.levels().max(census.by_level.len()), 0);
        let end = from.saturating_add(most).min(self.levels.buckets());
        for (level, buckets) in self.levels.of_levels(from..end) {
            *census.of(level) += self.levels.len_of(buckets);
        }
        for link in but.iter().filter_map(|&key| self.find(key)) {
            let bucket = link.place.bucket().as_index();
            if (from..end).contains(&bucket) {
                let level = self.levels.of_levels(bucket..bucket + 1).next();
                *census.of(level.expect("each bucket is one of a level").0) -= 1;
            }
        }
        (end < self.levels.buckets()).then_some(end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::wheel::{Nanos, Resolution};

    const SLOTS: usize = 3;

    fn with_deadlines(deadlines: impl IntoIterator<Item = u64>) -> (Hierarchy<()>, Vec<Key>) {
        let mut hierarchy =
            Hierarchy::new(Resolution::new(Duration::from_nanos(1)).expect("not zero"), SLOTS);
        let insert = |nanos| hierarchy.insert(Nanos::ZERO, Nanos(nanos), ()).expect("not due");
        let keys = deadlines.into_iter().map(insert).collect();
        (hierarchy, keys)
    }

    #[test]
    fn entries_stand_on_the_levels_of_the_module_s_table() {
        let (mut hierarchy, _) = with_deadlines([2, 5, 13]);
        assert_eq!(hierarchy.len_by_level(), [1, 1, 1]);
        for (now, lens) in
            [(2, [0, 1, 1]), (3, [1, 0, 1]), (5, [0, 0, 1]), (9, [0, 1, 0]), (12, [1, 0, 0]), (13, [0; 3])]
        {
            let _ = hierarchy.advance(Nanos(now), 10, &mut Vec::new());
            assert_eq!(hierarchy.len_by_level(), lens, "at {now}");
        }
    }

    proptest! {
        #[test]
        fn counted_a_few_buckets_at_a_time_it_is_the_same_and_keys_that_are_left_out_are(
            deadlines in vec(1..100_u64, 1..50),
            most in 1..20_usize,
            left_out in 0..50_usize,
        ) {
            let (mut hierarchy, keys) = with_deadlines(deadlines);
            let left_out = &keys[..left_out.min(keys.len())];
            // Of stale keys nothing is taken off.
            let stale = hierarchy.insert(Nanos::ZERO, Nanos(7), ()).expect("not due");
            hierarchy.cancel(stale);
            let but = [left_out, &[stale]].concat();
            let mut census = Census::default();
            let mut from = Some(0);
            while let Some(bucket) = from {
                from = hierarchy.add_to_census(&mut census, bucket, most, &but);
            }
            for &key in left_out {
                hierarchy.cancel(key);
            }
            prop_assert_eq!(&census.by_level, &hierarchy.len_by_level());
            prop_assert_eq!(census.by_level.iter().sum::<usize>(), hierarchy.len());
        }
    }
}
